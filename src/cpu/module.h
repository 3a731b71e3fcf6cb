// The LLVM objects behind Code; included only by the files that speak LLVM.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "cpu/code.h"

namespace iron::cpu {

struct Code::Module {
  std::unique_ptr<llvm::LLVMContext> context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> module;
  llvm::IRBuilder<> builder{*context};
  llvm::Function* body = nullptr;
  llvm::BasicBlock* entry = nullptr;  ///< holds only allocas and what the arguments need
  std::size_t params = 0;
};

}  // namespace iron::cpu
