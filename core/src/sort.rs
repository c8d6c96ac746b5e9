//! Sorting.

use alloc::vec::Vec;
use core::cmp::Ordering;

/// Sorts numbers. No two of them are equal by `order`.
///
/// The standard library compiles a copy of its sort for each order. WebAssembly, which is downloaded, has
/// only this copy: everything that is sorted there is sorted by its number.
#[cfg_attr(target_family = "wasm", inline(never))]
#[cfg_attr(not(target_family = "wasm"), inline(always))]
pub(crate) fn sort_by(numbers: &mut [u32], order: &dyn Fn(u32, u32) -> Ordering) {
    numbers.sort_unstable_by(|a, b| order(*a, *b));
}

/// Sorts small values, in place. WebAssembly sorts their places, by the one copy of [`sort_by`].
#[cfg_attr(not(target_family = "wasm"), inline(always))]
pub(crate) fn sort<T: Ord + Copy>(values: &mut [T]) {
    if cfg!(not(target_family = "wasm")) {
        return values.sort_unstable();
    }
    sort_places(values);
}

/// Sorts values by their keys. Those with equal keys stay in their order.
#[cfg_attr(not(target_family = "wasm"), inline(always))]
pub(crate) fn sort_by_key<T, K: Ord>(values: &mut Vec<T>, key: impl Fn(&T) -> K) {
    if cfg!(not(target_family = "wasm")) {
        return values.sort_by_key(key);
    }
    sort_places_by_key(values, key);
}

/// Sorts values by the keys of their places.
fn sort_places_by_key<T, K: Ord>(values: &mut Vec<T>, key: impl Fn(&T) -> K) {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    let key = |at: u32| (key(&values[at as usize]), at);
    sort_by(&mut order, &|a, b| key(a).cmp(&key(b)));
    let mut before: Vec<Option<T>> = values.drain(..).map(Some).collect();
    for at in order {
        values.extend(before[at as usize].take());
    }
}

/// Sorts values by their places.
fn sort_places<T: Ord + Copy>(values: &mut [T]) {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    sort_by(&mut order, &|a, b| {
        values[a as usize].cmp(&values[b as usize])
    });
    let sorted: Vec<T> = order.iter().map(|at| values[*at as usize]).collect();
    values.copy_from_slice(&sorted);
}

/// Sorts numbers by the texts for which they stand. No two of the texts are equal.
#[cfg_attr(not(target_family = "wasm"), inline(always))]
pub(crate) fn sort_by_text<'a>(numbers: &mut [u32], text: &dyn Fn(u32) -> &'a str) {
    if cfg!(target_family = "wasm") {
        return sort_by(numbers, &|a, b| text(a).cmp(text(b)));
    }
    let first = numbers.first().map_or("", |first| text(*first)).as_bytes();
    let mut common = first.len();
    for number in numbers.iter() {
        let both = first.iter().zip(text(*number).as_bytes()).take(common);
        common = both.take_while(|(a, b)| a == b).count();
    }
    // The bytes after the common part nearly always decide, and are compared as a number.
    let head = |number: u32| {
        let rest = &text(number).as_bytes()[common..];
        let mut head = [0; 8];
        let count = rest.len().min(8);
        head[..count].copy_from_slice(&rest[..count]);
        (u64::from_be_bytes(head), number)
    };
    let mut heads: Vec<(u64, u32)> = numbers.iter().map(|number| head(*number)).collect();
    heads.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| text(a.1).cmp(text(b.1))));
    for (number, (_, sorted)) in numbers.iter_mut().zip(heads) {
        *number = sorted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    #[test]
    fn values_are_sorted_by_their_places() {
        let mut values = [(3, 'c'), (1, 'b'), (3, 'a'), (1, 'b'), (0, 'z')];
        sort_places(&mut values);
        assert_eq!(values, [(0, 'z'), (1, 'b'), (1, 'b'), (3, 'a'), (3, 'c')]);
        sort_places::<u32>(&mut []);
        let mut values = Vec::from([(3, 'c'), (1, 'b'), (3, 'a'), (1, 'a')]);
        sort_places_by_key(&mut values, |it| it.0);
        assert_eq!(values, [(1, 'b'), (1, 'a'), (3, 'c'), (3, 'a')]);
    }

    #[test]
    fn texts_are_sorted_whatever_they_have_in_common() {
        for prefix in ["", "a", "key:", "a rather long beginning/"] {
            let numbers = (0..200).map(|number| format!("{prefix}{}", number * 7919 % 1000));
            let zeros = (0..20).map(|zeros| format!("{prefix}9{}", "\0".repeat(zeros)));
            let texts: Vec<String> = numbers.chain(zeros).collect();
            let mut sorted: Vec<u32> = (0..texts.len() as u32).collect();
            sort_by_text(&mut sorted, &|at| &texts[at as usize]);
            let in_order: Vec<&String> = sorted.iter().map(|at| &texts[*at as usize]).collect();
            assert!(
                in_order.is_sorted() && sorted.len() == texts.len(),
                "{prefix}"
            );
        }
        sort_by_text(&mut [], &|_| "");
    }
}
