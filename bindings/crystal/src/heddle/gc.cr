# `module GC` of a program without a garbage collector, on Heddle.
module GC
  # Allocates *size* bytes that read as zero, as `GC.malloc` promises.
  def self.malloc(size : LibC::SizeT) : Void*
    Heddle.calloc(size)
  end

  # Allocates *size* bytes that will hold no pointers. They are not cleared.
  def self.malloc_atomic(size : LibC::SizeT) : Void*
    Heddle.malloc_uninitialized(size)
  end

  # Allocates *size* bytes that read as zero.
  def self.calloc(size : Int) : Void*
    Heddle.calloc(size)
  end

  # Allocates *size* bytes that read as zero and will hold no pointers.
  def self.calloc_atomic(size : Int) : Void*
    Heddle.calloc(size)
  end

  # Resizes a block in place where it can. What it adds is not cleared; see `Heddle.recalloc`.
  def self.realloc(pointer : Void*, size : LibC::SizeT) : Void*
    block = LibHeddle.realloc(pointer, size)
    raise Heddle::OutOfMemoryError.new(1, size) if block.null? && size > 0
    block
  end

  # Frees a block. Nothing does so by itself.
  def self.free(pointer : Void*) : Nil
    LibHeddle.free(pointer)
  end

  # Whether *pointer* lies in memory of Heddle's.
  def self.is_heap_ptr(pointer : Void*) : Bool
    LibHeddle.owns(pointer)
  end

  # Gives free memory back to the system; finds no garbage.
  def self.collect
    Heddle.collect
  end

  # heap_size: what pages and large blocks take. free_bytes: the free part of it. unmapped_bytes: given back to the system so far.
  # bytes_since_gc and total_bytes: what the program holds, which is all it ever allocated less what it freed.
  def self.stats : GC::Stats
    now = Heddle.stats
    free = now.free_in_pages + now.cached
    Stats.new(
      heap_size: now.live.to_u64 + free,
      free_bytes: free.to_u64,
      unmapped_bytes: now.purged_total.to_u64,
      bytes_since_gc: now.live.to_u64,
      total_bytes: now.live.to_u64)
  end

  # The same in the form of the collector's own statistics, of which newer versions of Crystal have more.
  def self.prof_stats
    now = stats
    {% begin %}
      ProfStats.new(
        heap_size: now.heap_size,
        free_bytes: now.free_bytes,
        unmapped_bytes: now.unmapped_bytes,
        bytes_since_gc: now.bytes_since_gc,
        {% for name in ProfStats.instance_vars.map(&.name.stringify) %}
          {% if name == "obtained_from_os_bytes" %}
            obtained_from_os_bytes: now.heap_size,
          {% elsif !%w(heap_size free_bytes unmapped_bytes bytes_since_gc).includes?(name) %}
            {{ name.id }}: 0_u64,
          {% end %}
        {% end %})
    {% end %}
  end
end
