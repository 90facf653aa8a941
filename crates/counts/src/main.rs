//! The hot paths, each by itself and the same in every run, for callgrind to count their instructions.
//!
//! `scripts/counts` runs this under valgrind and compares the counts with `bounds.txt`. A path has fixed input, one thread, no clock, no
//! random numbers, and a disk in memory. What it works on is made ready beforehand and not counted.
//!
//! The planted bugs of the protocol are not compiled in: what is counted is what is shipped.

mod bytes;
mod cluster;
mod collected;
mod places;
mod store;
mod transactions;

fn main() {
    bytes::count();
    places::count();
    transactions::count();
    store::count();
}
