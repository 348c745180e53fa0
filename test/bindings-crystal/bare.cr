# A program without Crystal's standard library, on the functions of libheddle-crystal: the compiler finds them by name and calls them for
# objects and for Pointer.malloc. Ends with status 0, or with the number of the check that failed.
require "primitives"

@[Link("heddle-crystal")]
lib LibMemory
  fun __crystal_malloc64(size : UInt64) : Void*
  fun __crystal_malloc_atomic64(size : UInt64) : Void*
  fun __crystal_realloc64(pointer : Void*, size : UInt64) : Void*
  fun __crystal_calloc64(size : UInt64) : Void*
  fun __crystal_recalloc64(pointer : Void*, old_size : UInt64, size : UInt64) : Void*
end

@[Link("heddle")]
lib LibHeddle
  fun hd_owns(pointer : Void*) : Bool
  fun hd_free(pointer : Void*)
  fun hd_usable_size(pointer : Void*) : UInt64
end

lib LibC
  fun exit(status : Int32) : NoReturn
end

class Node
  @following = Pointer(Node).new(0_u64)

  def initialize(@value : Int32)
  end

  def value
    @value
  end
end

def check(number, truth)
  LibC.exit(number) unless truth
end

# Named once, the functions are known to the compiler from here on.
LibHeddle.hd_free(LibMemory.__crystal_malloc64(16_u64))
LibHeddle.hd_free(LibMemory.__crystal_malloc_atomic64(16_u64))
LibHeddle.hd_free(LibMemory.__crystal_realloc64(Pointer(Void).new(0_u64), 16_u64))

node = Node.new(42)
check 1, LibHeddle.hd_owns(node.as(Void*))
check 2, node.value == 42

numbers = Pointer(Int64).malloc(1000_u64)
check 3, LibHeddle.hd_owns(numbers.as(Void*))
index = 0_i64
while index < 1000
  check 4, (numbers + index).value == 0
  (numbers + index).value = index
  index = index &+ 1
end
numbers = numbers.realloc(2000_u64)
check 5, LibHeddle.hd_owns(numbers.as(Void*))
check 6, LibHeddle.hd_usable_size(numbers.as(Void*)) >= 16000_u64
check 7, (numbers + 999_i64).value == 999

bytes = LibMemory.__crystal_calloc64(100_u64).as(UInt8*)
check 8, (bytes + 99_i64).value == 0
bytes = LibMemory.__crystal_recalloc64(bytes.as(Void*), 100_u64, 300_u64).as(UInt8*)
check 9, (bytes + 299_i64).value == 0
LibHeddle.hd_free(bytes.as(Void*))
LibHeddle.hd_free(numbers.as(Void*))
LibHeddle.hd_free(node.as(Void*))
