//! mimalloc, for programs that allocate much and for a short time.
//!
//! The usual binding asks mimalloc for an alignment each time. What has one to ask for gets a larger block in mimalloc 3, on a slow path, unless
//! its size is a power of two ([mimalloc_rust #170](https://github.com/purpleprotocol/mimalloc_rust/pull/170)). Nearly everything is aligned enough without
//! being asked for, so here only the rest is.

#![allow(unsafe_code, reason = "an allocator hands out memory that nothing has proved to be free")]

use std::{
    alloc::{GlobalAlloc, Layout},
    ffi::c_void,
};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc, mi_zalloc_aligned,
};

/// The allocator of a program: `#[global_allocator] static ALLOCATOR: Allocator = Allocator;`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// What has at least as many bytes is aligned by as many, as C wants it of `malloc` on all processors that Týr runs on.
const ALIGNED: usize = 16;

/// Whether a block of a size is aligned so without being asked for.
fn is_aligned(size: usize, align: usize) -> bool {
    align <= size.min(ALIGNED)
}

// SAFETY: mimalloc's functions do what these are to do; blocks of all of them may be passed to each of them.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: it may be asked for any size and any power of two.
        let block =
            unsafe { if is_aligned(size, align) { mi_malloc(size) } else { mi_malloc_aligned(size, align) } };
        block.cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: as for `alloc`.
        let block =
            unsafe { if is_aligned(size, align) { mi_zalloc(size) } else { mi_zalloc_aligned(size, align) } };
        block.cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller has it from this allocator, and gives it up.
        unsafe { mi_free(block.cast::<c_void>()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, align) = (block.cast::<c_void>(), layout.align());
        // SAFETY: the caller has it from this allocator, and gives it up for what is returned. What stays where it is is aligned as it was.
        let block = unsafe {
            if is_aligned(size, align) { mi_realloc(old, size) } else { mi_realloc_aligned(old, size, align) }
        };
        block.cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layouts() -> impl Iterator<Item = Layout> {
        let sizes = (1..300).chain([511, 1000, 1024, 1025, 4096, 4120, 100_000, 1 << 20, (1 << 20) + 24]);
        let aligns = (0..=12).map(|power| 1 << power);
        sizes.flat_map(move |size| aligns.clone().map(move |align| (size, align))).map(|(size, align)| {
            Layout::from_size_align(size, align).expect("a power of two, and far from all memory")
        })
    }

    #[test]
    fn blocks_are_aligned_zeroed_where_that_was_asked_for_and_keep_what_they_hold_when_they_move() {
        let mut blocks = Vec::new();
        for (place, layout) in layouts().enumerate() {
            let filling = u8::try_from(place % 255).expect("less than 255") + 1;
            // SAFETY: no layout has no bytes, and a block is as large as its layout says.
            let block = unsafe {
                let zeroed = Allocator.alloc_zeroed(layout);
                let bytes = std::slice::from_raw_parts_mut(zeroed, layout.size());
                assert!(bytes.iter().all(|byte| *byte == 0), "{layout:?}");
                bytes.fill(filling);
                Allocator.dealloc(zeroed, layout);
                let block = Allocator.alloc(layout);
                std::slice::from_raw_parts_mut(block, layout.size()).fill(filling);
                block
            };
            assert_eq!(block.addr() % layout.align(), 0, "{layout:?}");
            blocks.push((block, layout, filling));
        }
        for (block, layout, filling) in blocks {
            for size in [layout.size() / 2 + 1, layout.size() * 3 + 1] {
                let kept = size.min(layout.size());
                // SAFETY: it was allocated with this layout, at first or by this.
                unsafe {
                    let copy = Allocator.alloc(layout);
                    std::ptr::copy_nonoverlapping(block, copy, layout.size());
                    let moved = Allocator.realloc(copy, layout, size);
                    assert_eq!(moved.addr() % layout.align(), 0, "{layout:?} to {size}");
                    let bytes = std::slice::from_raw_parts(moved, kept);
                    assert!(bytes.iter().all(|byte| *byte == filling), "{layout:?} to {size}");
                    let layout = Layout::from_size_align(size, layout.align()).expect("as valid as before");
                    Allocator.dealloc(moved, layout);
                }
            }
            // SAFETY: nobody uses it any more.
            unsafe { Allocator.dealloc(block, layout) };
        }
    }
}
