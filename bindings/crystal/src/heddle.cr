# Heddle as the memory of a Crystal program that runs without a garbage collector.
#
#   require "heddle"          crystal build -Dgc_none program.cr
#
# The file reopens `module GC` and takes over every way by which a program gets memory. Which ones clear it:
#
#   cleared      Pointer(T).malloc, GC.malloc, GC.calloc, GC.calloc_atomic, Heddle.recalloc (what it adds)
#   not cleared  GC.malloc_atomic, Heddle.malloc_uninitialized, Pointer(T).malloc_uninitialized, GC.realloc (what it adds)
#
# Objects and closures come through `__crystal_malloc64`, which does not clear: the compiler writes zeros over them itself.
# What is known to be zero is neither cleared nor touched: 128 MiB that nobody has used yet cost some microseconds.
{% unless flag?(:gc_none) %}
  {% raise "heddle: memory of programs without a garbage collector; build with -Dgc_none" %}
{% end %}

require "./heddle/lib_heddle"

module Heddle
  # Raised by what asks for memory of a length of its choice. An object that finds no memory ends the program with a message.
  class OutOfMemoryError < Exception
    def initialize(count, bytes)
      super(count == 1 ? "no memory for #{bytes} bytes" : "no memory for #{count} x #{bytes} bytes")
    end
  end

  # Allocates *bytes* bytes and does not clear them: for memory that is written before it is read.
  def self.malloc_uninitialized(bytes : Int) : Void*
    check(LibHeddle.malloc(length(bytes)), 1, bytes)
  end

  # Allocates *bytes* bytes that read as zero.
  def self.calloc(bytes : Int) : Void*
    check(LibHeddle.zalloc(length(bytes)), 1, bytes)
  end

  # Allocates *count* times *bytes* bytes that read as zero; a product that overflows is an `OutOfMemoryError`.
  def self.calloc(count : UInt64, bytes : Int32) : Void*
    check(LibHeddle.calloc(count, bytes), count, bytes)
  end

  # Resizes a block from *old_bytes* to *bytes* bytes; what lies behind *old_bytes* reads as zero.
  def self.recalloc(pointer : Void*, old_bytes : Int, bytes : Int) : Void*
    old, new = length(old_bytes), length(bytes)
    return calloc(bytes) if pointer.null?
    if new > old && new - old > old && new > LibHeddle.usable_size(pointer)
      block = calloc(bytes) # the copy is shorter than what would have to be cleared
      block.as(UInt8*).copy_from(pointer.as(UInt8*), old)
      LibHeddle.free(pointer)
      return block
    end
    block = GC.realloc(pointer, new)
    (block.as(UInt8*) + old).clear(new - old) if new > old
    block
  end

  # Bytes that the owner of a block may use; at least what was asked for.
  def self.usable_size(pointer : Void*) : LibC::SizeT
    LibHeddle.usable_size(pointer)
  end

  # Gives free memory back to the system, all but *keep* bytes. Returns whether there was any.
  def self.collect(keep : Int = 0) : Bool
    LibHeddle.collect(length(keep))
  end

  # Where memory is; see `hd_stats` in heddle.h.
  def self.stats : LibHeddle::Stats
    stats = LibHeddle::Stats.new
    stats.struct_bytes = sizeof(LibHeddle::Stats)
    LibHeddle.stats_get(pointerof(stats))
    stats
  end

  # Version of the library, as "0.1.0 (release)".
  def self.version : String
    String.new(LibHeddle.version_text)
  end

  # :nodoc:
  def self.length(bytes : Int) : LibC::SizeT
    raise ArgumentError.new("negative size: #{bytes}") if bytes < 0
    LibC::SizeT.new(bytes)
  end

  # :nodoc:
  def self.product(count : UInt64, bytes : Int32) : LibC::SizeT
    raise OutOfMemoryError.new(count, bytes) if bytes > 0 && count > LibC::SizeT::MAX // bytes
    LibC::SizeT.new(count) * bytes
  end

  # :nodoc:
  @[AlwaysInline]
  def self.check(pointer : Void*, count, bytes) : Void*
    raise OutOfMemoryError.new(count, bytes) if pointer.null?
    pointer
  end

  # :nodoc:
  # An exception needs memory itself, so here a line without any must do.
  def self.die : NoReturn
    text = "heddle: out of memory\n"
    LibC.write(2, text.to_unsafe, text.bytesize)
    LibC.abort
  end
end

# What the compiler calls for objects and closures. It clears them itself, and is not prepared for NULL.

# :nodoc:
fun __crystal_malloc64(size : UInt64) : Void*
  pointer = LibHeddle.malloc(size)
  pointer.null? ? Heddle.die : pointer
end

# :nodoc:
fun __crystal_malloc_atomic64(size : UInt64) : Void*
  pointer = LibHeddle.malloc(size)
  pointer.null? ? Heddle.die : pointer
end

# :nodoc:
fun __crystal_realloc64(pointer : Void*, size : UInt64) : Void*
  block = LibHeddle.realloc(pointer, size)
  block.null? && size > 0 ? Heddle.die : block
end

# What a compiler calls, if it knows them, where it would otherwise clear by itself.

# :nodoc:
fun __crystal_calloc64(size : UInt64) : Void*
  pointer = LibHeddle.zalloc(size)
  pointer.null? ? Heddle.die : pointer
end

# :nodoc:
fun __crystal_calloc_atomic64(size : UInt64) : Void*
  __crystal_calloc64(size)
end

# The compiler's own forms of these two always clear, and can't be rescued from where they are called.
struct Pointer(T)
  # :nodoc:
  def self.malloc(size : UInt64)
    Heddle.calloc(size, sizeof(T)).as(T*)
  end

  # Like `malloc`, but the memory is not cleared: write each element before you read it.
  def self.malloc_uninitialized(size : Int)
    raise ArgumentError.new("Negative Pointer#malloc size") if size < 0
    Heddle.malloc_uninitialized(Heddle.product(size.to_u64, sizeof(T))).as(T*)
  end

  # :nodoc:
  def realloc(size : UInt64)
    GC.realloc(self.as(Void*), Heddle.product(size, sizeof(T))).as(T*)
  end
end

require "./heddle/gc"
