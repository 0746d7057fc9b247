//! [`Sort`]: the order of the entries of a listing.

use std::cmp::Ordering;

use super::dir_entry::DirEntry;
use crate::message::Form;

/// The order in which entries are shown. Directories always come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::fs) struct Sort {
    pub(super) by: Column,
    pub(super) direction: Direction,
}

/// The column that entries are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Column {
    #[default]
    Name,
    Size,
    Modified,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Direction {
    #[default]
    Ascending,
    Descending,
}

impl Sort {
    /// The order in a query, with defaults for missing parameters.
    pub(in crate::fs) fn from_query(query: &Form<'_>) -> Sort {
        let by = match query.get("sort").as_deref() {
            Some("size") => Column::Size,
            Some("modified") => Column::Modified,
            _ => Column::Name,
        };
        let direction = match query.get("order").as_deref() {
            Some("desc") => Direction::Descending,
            _ => Direction::Ascending,
        };
        Sort { by, direction }
    }

    /// Compares two entries, each with its name in lower case.
    fn compare(
        self,
        (one_lower, one): &(String, DirEntry),
        (other_lower, other): &(String, DirEntry),
    ) -> Ordering {
        let by_name = || compare_names((one_lower, &one.name), (other_lower, &other.name));
        let ordering = match self.by {
            Column::Name => by_name(),
            Column::Size => one.size.cmp(&other.size).then_with(by_name),
            Column::Modified => one.modified.cmp(&other.modified).then_with(by_name),
        };
        let ordering = match self.direction {
            Direction::Ascending => ordering,
            Direction::Descending => ordering.reverse(),
        };
        one.size.is_some().cmp(&other.size.is_some()).then(ordering)
    }

    /// The query string with this order, for use in HTML. Empty for the default.
    pub(super) fn query(self) -> String {
        if self == Sort::default() {
            return String::new();
        }
        let name = self.by.name();
        let order = match self.direction {
            Direction::Ascending => "asc",
            Direction::Descending => "desc",
        };
        format!("?sort={name}&amp;order={order}")
    }
}

impl Column {
    /// The name in a query.
    pub(super) fn name(self) -> &'static str {
        match self {
            Column::Name => "name",
            Column::Size => "size",
            Column::Modified => "modified",
        }
    }
}

/// Sorts entries. Each name is converted to lower case once, since that allocates, and not for each comparison.
pub(super) fn sorted(entries: Vec<DirEntry>, sort: Sort) -> Vec<DirEntry> {
    let with_lower = entries.into_iter().map(|entry| (to_lowercase(&entry.name), entry));
    let mut entries: Vec<(String, DirEntry)> = with_lower.collect();
    entries.sort_by(|one, other| sort.compare(one, other));
    entries.into_iter().map(|(_, entry)| entry).collect()
}

fn to_lowercase(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_lowercase()
}

/// Compares names, each after its form in lower case, in natural order: ignoring case, and with numbers in them by value.
/// Names that are equal in this order are compared by their octets, so the order is total.
fn compare_names((one_lower, one): (&str, &[u8]), (other_lower, other): (&str, &[u8])) -> Ordering {
    compare_numbers(one_lower.as_bytes(), other_lower.as_bytes()).then_with(|| one.cmp(other))
}

/// Compares one number or one other octet after the other, until they differ.
fn compare_numbers(mut left: &[u8], mut right: &[u8]) -> Ordering {
    while !left.is_empty() && !right.is_empty() {
        let (first, second);
        ((first, left), (second, right)) = match (leading_digits(left), leading_digits(right)) {
            (0, _) | (_, 0) => (left.split_at(1), right.split_at(1)),
            (len, other_len) => (left.split_at(len), right.split_at(other_len)),
        };
        let ordering = match (leading_digits(first), leading_digits(second)) {
            (0, _) | (_, 0) => first.cmp(second),
            _ => {
                let (first, second) = (without_zeros(first), without_zeros(second));
                first.len().cmp(&second.len()).then_with(|| first.cmp(second))
            }
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    left.len().cmp(&right.len())
}

/// How many digits are at the front.
fn leading_digits(text: &[u8]) -> usize {
    text.iter().take_while(|octet| octet.is_ascii_digit()).count()
}

fn without_zeros(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|octet| **octet == b'0').count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(one: &[u8], other: &[u8]) -> Ordering {
        compare_names((&to_lowercase(one), one), (&to_lowercase(other), other))
    }

    #[test]
    fn names_are_in_natural_order() {
        for names in [
            ["dir2", "dir10"],
            ["Dir2", "dir10"],
            ["a", "B"],
            ["A", "b"],
            ["A", "a"],
            ["a", "a1"],
            ["01", "1"],
            ["1", "02"],
            ["2", "10"],
            ["a2b", "a10"],
            ["v1.2.9", "v1.2.10"],
            ["99999999999999999999998", "99999999999999999999999"],
            ["z", "é"],
        ] {
            let [one, other] = names.map(str::as_bytes);
            assert_eq!(compare(one, other), Ordering::Less, "{names:?}");
            assert_eq!(compare(other, one), Ordering::Greater, "{names:?}");
            assert_eq!(compare(one, one), Ordering::Equal, "{names:?}");
        }
    }

    /// `sort_by` may panic if an order is not total.
    #[test]
    fn names_have_a_total_order() {
        let octets = [&b"0"[..], b"5", b"05", b"-", b"a", b"A", b"\xc3\xa9", b"\xff", b""];
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (one, two, three) in
            octets.iter().flat_map(|one| octets.iter().flat_map(move |two| octets.map(|it| (one, two, it))))
        {
            names.push([one, *two, three].concat());
        }
        names.sort_by(|one, other| compare(one, other));
        for (at, one) in names.iter().enumerate() {
            assert!(names[at..].iter().all(|other| compare(one, other).is_le()), "{one:?}");
        }
    }
}
