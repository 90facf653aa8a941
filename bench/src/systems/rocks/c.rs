//! The few functions of RocksDB's C interface (`rocksdb/c.h`, version 7.8) that are called here.

use std::ffi::{c_char, c_int, c_uchar, c_void};

macro_rules! handles {
    ($($name:ident),*) => {
        $(
            #[doc = concat!("An opaque `", stringify!($name), "` of the library.")]
            #[repr(C)]
            pub struct $name {
                _opaque: [u8; 0],
            }
        )*
    };
}

handles!(
    rocksdb_t,
    rocksdb_options_t,
    rocksdb_writeoptions_t,
    rocksdb_readoptions_t,
    rocksdb_flushoptions_t,
    rocksdb_writebatch_t,
    rocksdb_pinnableslice_t,
    rocksdb_block_based_table_options_t,
    rocksdb_filterpolicy_t,
    rocksdb_cache_t
);

#[link(name = "rocksdb")]
unsafe extern "C" {
    pub fn rocksdb_open(
        options: *const rocksdb_options_t,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut rocksdb_t;
    pub fn rocksdb_close(db: *mut rocksdb_t);
    pub fn rocksdb_free(memory: *mut c_void);
    pub fn rocksdb_property_int(db: *mut rocksdb_t, name: *const c_char, value: *mut u64) -> c_int;

    pub fn rocksdb_put(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_merge(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_write(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        batch: *mut rocksdb_writebatch_t,
        error: *mut *mut c_char,
    );
    pub fn rocksdb_get_pinned(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        key_length: usize,
        error: *mut *mut c_char,
    ) -> *mut rocksdb_pinnableslice_t;
    pub fn rocksdb_pinnableslice_value(
        slice: *const rocksdb_pinnableslice_t,
        length: *mut usize,
    ) -> *const c_char;
    pub fn rocksdb_pinnableslice_destroy(slice: *mut rocksdb_pinnableslice_t);
    pub fn rocksdb_flush(db: *mut rocksdb_t, options: *const rocksdb_flushoptions_t, error: *mut *mut c_char);
    pub fn rocksdb_compact_range(
        db: *mut rocksdb_t,
        start: *const c_char,
        start_length: usize,
        limit: *const c_char,
        limit_length: usize,
    );
    pub fn rocksdb_flushoptions_create() -> *mut rocksdb_flushoptions_t;
    pub fn rocksdb_flushoptions_destroy(options: *mut rocksdb_flushoptions_t);

    pub fn rocksdb_writebatch_create() -> *mut rocksdb_writebatch_t;
    pub fn rocksdb_writebatch_destroy(batch: *mut rocksdb_writebatch_t);
    pub fn rocksdb_writebatch_put(
        batch: *mut rocksdb_writebatch_t,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
    );

    pub fn rocksdb_options_create() -> *mut rocksdb_options_t;
    pub fn rocksdb_options_destroy(options: *mut rocksdb_options_t);
    pub fn rocksdb_options_set_create_if_missing(options: *mut rocksdb_options_t, value: c_uchar);
    pub fn rocksdb_options_increase_parallelism(options: *mut rocksdb_options_t, threads: c_int);
    pub fn rocksdb_options_set_uint64add_merge_operator(options: *mut rocksdb_options_t);
    pub fn rocksdb_options_set_enable_blob_files(options: *mut rocksdb_options_t, value: c_uchar);
    pub fn rocksdb_options_set_min_blob_size(options: *mut rocksdb_options_t, bytes: u64);
    pub fn rocksdb_options_set_enable_blob_gc(options: *mut rocksdb_options_t, value: c_uchar);
    pub fn rocksdb_options_set_use_direct_reads(options: *mut rocksdb_options_t, value: c_uchar);
    pub fn rocksdb_options_set_block_based_table_factory(
        options: *mut rocksdb_options_t,
        table: *mut rocksdb_block_based_table_options_t,
    );
    pub fn rocksdb_block_based_options_create() -> *mut rocksdb_block_based_table_options_t;
    pub fn rocksdb_block_based_options_destroy(options: *mut rocksdb_block_based_table_options_t);
    pub fn rocksdb_block_based_options_set_block_cache(
        options: *mut rocksdb_block_based_table_options_t,
        cache: *mut rocksdb_cache_t,
    );
    pub fn rocksdb_block_based_options_set_filter_policy(
        options: *mut rocksdb_block_based_table_options_t,
        policy: *mut rocksdb_filterpolicy_t,
    );
    pub fn rocksdb_filterpolicy_create_bloom(bits_per_key: f64) -> *mut rocksdb_filterpolicy_t;
    pub fn rocksdb_cache_create_lru(capacity: usize) -> *mut rocksdb_cache_t;
    pub fn rocksdb_cache_destroy(cache: *mut rocksdb_cache_t);

    pub fn rocksdb_writeoptions_create() -> *mut rocksdb_writeoptions_t;
    pub fn rocksdb_writeoptions_destroy(options: *mut rocksdb_writeoptions_t);
    pub fn rocksdb_writeoptions_set_sync(options: *mut rocksdb_writeoptions_t, value: c_uchar);
    pub fn rocksdb_readoptions_create() -> *mut rocksdb_readoptions_t;
    pub fn rocksdb_readoptions_destroy(options: *mut rocksdb_readoptions_t);
}
