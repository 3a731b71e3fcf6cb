// Streams, events and graphs of the C interface.
#include "capi/handles.h"

using namespace iron::capi;

namespace {
/// Makes a handle in `to` on a device that is locked.
template <class Handle, class Make>
iron_status made(const std::shared_ptr<SharedDevice>& shared, Handle** to, const char* what, Make&& make) {
  return on_device(shared, [&] {
    need(to, what);
    *to = nullptr;
    *to = new Handle{shared, make()};
  });
}
iron_status missing(const char* what) {
  return guarded([&] { need(nullptr, what); });
}
/// Ends a handle in the order of its device's work.
template <class Handle>
void end(Handle* handle) {
  if (!handle) return;
  const auto shared = handle->shared;
  on_device(shared, [&] { delete handle; });
}
}  // namespace

iron_status iron_stream_create(iron_device* device, iron_stream** stream) {
  if (!device) return missing("device");
  return made(device->shared, stream, "stream", [&] { return iron::Stream(device->shared->device); });
}
iron_status iron_stream_wrap(iron_device* device, void* native, iron_stream** stream) {
  if (!device) return missing("device");
  return made(device->shared, stream, "stream", [&] { return iron::Stream(device->shared->device, native); });
}
void iron_stream_destroy(iron_stream* stream) { end(stream); }
iron_status iron_stream_synchronize(iron_stream* stream) {
  if (!stream) return missing("stream");
  return on_device(stream->shared, [&] { stream->stream.synchronize(); });
}
iron_status iron_stream_idle(iron_stream* stream, int* done) {
  if (!stream) return missing("stream");
  return on_device(stream->shared, [&] {
    need(done, "done");
    *done = stream->stream.idle();
  });
}

iron_status iron_event_record(iron_stream* stream, iron_event** event) {
  if (!stream) return missing("stream");
  return made(stream->shared, event, "event", [&] { return stream->stream.record(); });
}
void iron_event_destroy(iron_event* event) { end(event); }
iron_status iron_event_synchronize(iron_event* event) {
  if (!event) return missing("event");
  return on_device(event->shared, [&] { event->event.synchronize(); });
}
iron_status iron_stream_wait(iron_stream* stream, const iron_event* event) {
  if (!stream) return missing("stream");
  return on_device(stream->shared, [&] {
    need(event, "event");
    stream->stream.wait(event->event);
  });
}
iron_status iron_event_seconds(const iron_event* earlier, const iron_event* later, double* seconds) {
  if (!later) return missing("later");
  return on_device(later->shared, [&] {
    need(earlier, "earlier"), need(seconds, "seconds");
    *seconds = later->event.seconds_since(earlier->event);
  });
}

iron_status iron_stream_capture(iron_stream* stream, iron_status (*body)(void* context), void* context,
                                iron_graph** graph) {
  if (!stream) return missing("stream");
  // The body's launches take the device's lock themselves.
  iron_status status = IRON_OK;
  const iron_status outer = guarded([&] {
    need(reinterpret_cast<const void*>(body), "body"), need(graph, "graph");
    *graph = nullptr;
    struct Stopped {};
    try {
      auto captured = stream->stream.capture([&] {
        if ((status = body(context)) != IRON_OK) throw Stopped{};
      });
      *graph = new iron_graph{stream->shared, std::move(captured)};
    } catch (const Stopped&) {
    }
  });
  return outer != IRON_OK ? outer : status;
}
void iron_graph_destroy(iron_graph* graph) { end(graph); }
iron_status iron_graph_replay(const iron_graph* graph, iron_stream* stream) {
  if (!stream) return missing("stream");
  return on_device(stream->shared, [&] {
    need(graph, "graph");
    stream->stream.replay(graph->graph);
  });
}
size_t iron_graph_size(const iron_graph* graph) { return graph ? graph->graph.size() : 0; }
