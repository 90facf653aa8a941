//! Where callgrind collects: it is told to by the name of one function, and writes down what it has whenever that ends.

use std::hint::black_box;

/// Runs a path once for each input, and says which path and how often. The first quarter is not counted: it fills caches, and lets
/// memory that is used again grow to its size.
pub fn counted<I, O>(path: &str, inputs: impl IntoIterator<Item = I>, mut act: impl FnMut(I) -> O) {
    let inputs: Vec<I> = inputs.into_iter().collect();
    let unheeded = inputs.len() / 4;
    say(path, inputs.len() - unheeded);
    let mut inputs = inputs.into_iter();
    inputs.by_ref().take(unheeded).for_each(|input| drop(black_box(act(input))));
    collected(&mut || {
        for input in &mut inputs {
            drop(black_box(act(input)));
        }
    });
}

/// One function for all paths, which is neither inlined nor left by a jump.
#[inline(never)]
fn collected(run: &mut dyn FnMut()) {
    run();
    black_box(());
}

#[expect(clippy::print_stdout, reason = "the counts are told apart by what is printed")]
fn say(path: &str, times: usize) {
    println!("{path} {times}");
}
