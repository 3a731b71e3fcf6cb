/* Uses the installed header and the installed libiron.so: one kernel of the library on a device that is always there.
 */
#include <iron/c.h>
#include <stdio.h>

int main(void) {
  const float x[3] = {1, 2, 3};
  float y[3] = {0, 0, 0};
  iron_device* device = NULL;
  iron_kernel* softmax = NULL;
  const iron_argument arguments[] = {iron_memory("x", IRON_F32, x, sizeof x), iron_memory("y", IRON_F32, y, sizeof y),
                                     iron_integer("n", 3)};
  if (iron_device_open("interpreter", &device) || iron_kernel_create(device, "softmax", IRON_F32, NULL, &softmax) ||
      iron_launch(softmax, arguments, 3, NULL) || iron_device_synchronize(device)) {
    fprintf(stderr, "%s\n", iron_last_error());
    return 1;
  }
  printf("softmax of 1 2 3: %g %g %g\n", y[0], y[1], y[2]);
  iron_kernel_destroy(softmax);
  iron_device_close(device);
  return 0;
}
