//! One page of a listing: prefix, delimiter, marker and page size over keys in byte order.
//!
//! Pure, and the same for objects, versions and uploads. A page is made by walking all keys after
//! the marker, common prefixes included; a store for development does not need better.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Left as they are by `encoding-type=url`.
const URL_ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// What a listing asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Query<'a> {
    pub(super) prefix: &'a str,
    /// Empty for none.
    pub(super) delimiter: &'a str,
    /// Only what comes after it, in byte order; empty for the start.
    pub(super) after: &'a str,
    /// Keys come several times (uploads), and the caller has already left out what it has listed
    /// of the marker's own key.
    pub(super) keys_repeat: bool,
    pub(super) items_max: usize,
}

/// One page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    pub(super) common_prefixes: Vec<String>,
    /// The last key or common prefix of a page that is not the last one: the next page's marker.
    pub(super) next: Option<String>,
}

impl<T> Page<T> {
    pub(super) fn len(&self) -> usize {
        self.items.len() + self.common_prefixes.len()
    }
}

impl Query<'_> {
    /// Makes a page of `keys`, which come in byte order.
    pub(super) fn page<'k, T>(&self, keys: impl Iterator<Item = (&'k str, T)>) -> Page<T> {
        let mut page = Page { items: Vec::new(), common_prefixes: Vec::new(), next: None };
        let mut last = String::new();
        for (key, item) in keys {
            let Some(rest) = key.strip_prefix(self.prefix) else { continue };
            let common = self.common_prefix(key, rest);
            let position = common.unwrap_or(key);
            let listed = match common {
                // The marker may be a common prefix itself, whose keys all come after it.
                Some(common) => common <= self.after || common == last || key <= self.after,
                None if self.keys_repeat => key < self.after,
                None => key <= self.after,
            };
            if listed {
                continue;
            }
            if page.len() == self.items_max {
                // With no room at all there is nothing to go on from either.
                page.next = (self.items_max > 0).then_some(last);
                return page;
            }
            position.clone_into(&mut last);
            match common {
                Some(common) => page.common_prefixes.push(common.to_owned()),
                None => page.items.push(item),
            }
        }
        page
    }

    fn common_prefix<'k>(&self, key: &'k str, rest: &str) -> Option<&'k str> {
        if self.delimiter.is_empty() {
            return None;
        }
        let at = rest.find(self.delimiter)?;
        key.get(..self.prefix.len() + at + self.delimiter.len())
    }
}

/// A key as the answer spells it.
pub(super) fn encode(text: &str, url: bool) -> String {
    if url { utf8_percent_encode(text, URL_ENCODED).to_string() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 8] = ["a", "b/", "b/1", "b/2/x", "b0", "c//d", "c/é", "d"];

    fn page(query: Query<'_>) -> Page<&'static str> {
        query.page(KEYS.into_iter().map(|key| (key, key)))
    }

    fn query() -> Query<'static> {
        Query { items_max: 1000, ..Query::default() }
    }

    #[test]
    fn everything() {
        assert_eq!(page(query()).items, KEYS);
    }

    #[test]
    fn delimited() {
        let found = page(Query { delimiter: "/", ..query() });
        assert_eq!(found.items, ["a", "b0", "d"]);
        assert_eq!(found.common_prefixes, ["b/", "c/"]);
        let found = page(Query { delimiter: "/", prefix: "b/", ..query() });
        assert_eq!(found.items, ["b/", "b/1"]);
        assert_eq!(found.common_prefixes, ["b/2/"]);
    }

    #[test]
    fn pages_join_without_gap_or_repetition() {
        for delimiter in ["", "/"] {
            let whole = page(Query { delimiter, ..query() });
            for items_max in 1..=KEYS.len() {
                let (mut items, mut prefixes, mut after) = (Vec::new(), Vec::new(), String::new());
                loop {
                    let found = page(Query { delimiter, after: &after, items_max, ..query() });
                    assert!(found.len() <= items_max);
                    items.extend(found.items);
                    prefixes.extend(found.common_prefixes);
                    let Some(next) = found.next else { break };
                    after = next;
                }
                assert_eq!((items, prefixes), (whole.items.clone(), whole.common_prefixes.clone()));
            }
        }
    }

    #[test]
    fn repeated_keys_go_on_within_a_key() {
        let all = [("a/", 1), ("b", 1), ("b", 2), ("b", 3), ("c/x", 1), ("c/x", 2), ("d", 1)];
        let (mut items, mut prefixes) = (Vec::new(), Vec::new());
        let mut marker = (String::new(), 0);
        loop {
            let (after, number) = (marker.0.as_str(), marker.1);
            let query =
                Query { delimiter: "/", after, keys_repeat: true, items_max: 2, prefix: "" };
            let left = all.into_iter().filter(|(key, n)| *key != after || *n > number);
            let found = query.page(left.map(|item| (item.0, item)));
            items.extend(found.items.iter().copied());
            prefixes.extend(found.common_prefixes);
            let Some(next) = found.next else { break };
            marker = (next, found.items.last().map_or(0, |item| item.1));
        }
        assert_eq!(items, [("b", 1), ("b", 2), ("b", 3), ("d", 1)]);
        assert_eq!(prefixes, ["a/", "c/"]);
    }

    #[test]
    fn url_encoding_leaves_slashes() {
        assert_eq!(encode("a/b c+é", true), "a/b%20c%2B%C3%A9");
        assert_eq!(encode("a b", false), "a b");
    }
}
