//! Which known word a wrong word was probably meant to be.

/// What belongs to the spelling that the fewest insertions, removals, and replacements of letters make of `word`; of
/// equals the first.
pub fn closest<'a, T>(word: &str, spellings: impl IntoIterator<Item = (&'a str, T)>) -> Option<T> {
    // The edit distance takes time in the product of the lengths; no key comes near this length.
    let word: Vec<char> = word.chars().take(64).collect();
    spellings.into_iter().min_by_key(|(spelling, _)| distance(&word, spelling)).map(|(_, meant)| meant)
}

fn distance(word: &[char], candidate: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (line, letter) in candidate.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for column in 0..word.len() {
            let replaced = diagonal + usize::from(word[column] != letter);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[word.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_word_needs_the_fewest_edits() {
        let words = ["store.path", "store.data_cache", "store.index_cache", "output.color"];
        let closest = |word| closest(word, words.map(|word| (word, word)));
        assert_eq!(closest("store.data_cash"), Some("store.data_cache"));
        assert_eq!(closest("output.colour"), Some("output.color"));
        assert_eq!(super::closest::<()>("x", []), None);
    }

    #[test]
    fn distances_are_those_of_levenshtein() {
        let between = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), b);
        assert_eq!((between("kitten", "sitting"), between("", "abc"), between("abc", "abc")), (3, 3, 0));
    }
}
