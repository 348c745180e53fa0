# The part of heddle.h that the shard uses. Linked by pkg-config's answer for `heddle`, else by -lheddle; the directory of a library
# that is not installed goes into CRYSTAL_LIBRARY_PATH or --link-flags.
@[Link("heddle", pkg_config: "heddle")]
lib LibHeddle
  struct Stats
    version : LibC::SizeT
    struct_bytes : LibC::SizeT
    live : LibC::SizeT
    live_count : LibC::SizeT
    free_in_pages : LibC::SizeT
    large : LibC::SizeT
    cached : LibC::SizeT
    metadata : LibC::SizeT
    mapped : LibC::SizeT
    reserved : LibC::SizeT
    purged_total : LibC::SizeT
    page_count : LibC::SizeT
    heap_count : LibC::SizeT
    orphan_count : LibC::SizeT
    os_call_count : LibC::SizeT
    moved_total : LibC::SizeT
    resident : LibC::SizeT
    objects : LibC::SizeT
    object_count : LibC::SizeT
  end

  fun malloc = hd_malloc(bytes : LibC::SizeT) : Void*
  fun zalloc = hd_zalloc(bytes : LibC::SizeT) : Void*
  fun calloc = hd_calloc(count : LibC::SizeT, bytes : LibC::SizeT) : Void*
  fun realloc = hd_realloc(pointer : Void*, bytes : LibC::SizeT) : Void*
  fun free = hd_free(pointer : Void*)
  fun owns = hd_owns(pointer : Void*) : Bool
  fun usable_size = hd_usable_size(pointer : Void*) : LibC::SizeT
  fun collect = hd_collect(keep_bytes : LibC::SizeT) : Bool
  fun stats_get = hd_stats_get(stats : Stats*) : Bool
  fun version_text = hd_version_text : LibC::Char*
end

lib LibC
  fun abort : NoReturn
end
