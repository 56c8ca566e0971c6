//! Maximum matching of parts with expectations; an expectation takes a number of parts.
//!
//! Kuhn's algorithm: a part that finds no free expectation takes the place of another part that has an alternative. So
//! an expectation stays unfulfilled only if no assignment at all could fulfil more of them.

/// Assignment of parts to the expectations that they fulfil.
#[derive(Debug)]
pub(crate) struct Matching<'a> {
    /// True if the part of a row fits the expectation of a column.
    fits: &'a [Vec<bool>],
    /// The expectation of each part.
    pub(crate) chosen: Vec<Option<usize>>,
    capacities: Vec<usize>,
    /// Number of parts of each expectation.
    n_parts: Vec<usize>,
}

impl<'a> Matching<'a> {
    /// Matches `fits.len()` parts with expectations of at least `least` parts first, then up to `most`.
    pub(crate) fn new(fits: &'a [Vec<bool>], least: &[usize], most: &[usize]) -> Matching<'a> {
        let mut matching = Matching {
            fits,
            chosen: vec![None; fits.len()],
            capacities: least.to_vec(),
            n_parts: vec![0; least.len()],
        };
        matching.fill();
        // Growing keeps what is fulfilled: a part that gives up its place has another one to go to.
        matching.capacities = most.to_vec();
        matching.fill();
        matching
    }

    /// Number of parts of the expectation.
    pub(crate) fn n_parts(&self, expectation: usize) -> usize {
        self.n_parts.get(expectation).copied().unwrap_or_default()
    }

    fn fill(&mut self) {
        // What a search tried in vain stays out of reach for all later ones (Kuhn), so the whole takes little time.
        let mut hopeless = vec![false; self.capacities.len()];
        for part in 0..self.fits.len() {
            if self.chosen.get(part).is_some_and(Option::is_none) {
                let mut tried = hopeless.clone();
                if !self.place(part, &mut tried) {
                    hopeless = tried;
                }
            }
        }
    }

    /// Finds an expectation for the part; others move to make room. No expectation is tried twice, so the depth is
    /// bounded by their number.
    fn place(&mut self, part: usize, tried: &mut Vec<bool>) -> bool {
        let fits = self.fits;
        let Some(row) = fits.get(part) else { return false };
        for (expectation, fits) in row.iter().enumerate() {
            if !fits || std::mem::replace(tried.get_mut(expectation).unwrap_or(&mut true), true) {
                continue;
            }
            let capacity = self.capacities.get(expectation).copied().unwrap_or_default();
            let is_free = self.n_parts(expectation) < capacity;
            if is_free || (capacity > 0 && self.make_room(expectation, tried)) {
                self.choose(part, expectation);
                return true;
            }
        }
        false
    }

    fn choose(&mut self, part: usize, expectation: usize) {
        let left = self.chosen.get_mut(part).and_then(|chosen| chosen.replace(expectation));
        if let Some(n_parts) = left.and_then(|left| self.n_parts.get_mut(left)) {
            *n_parts -= 1;
        }
        if let Some(n_parts) = self.n_parts.get_mut(expectation) {
            *n_parts += 1;
        }
    }

    fn make_room(&mut self, expectation: usize, tried: &mut Vec<bool>) -> bool {
        (0..self.chosen.len()).any(|other| {
            self.chosen.get(other) == Some(&Some(expectation)) && self.place(other, tried)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest number of places among the first `least` that any assignment fills, by trying all.
    fn best(fits: &[Vec<bool>], part: usize, left: &mut Vec<usize>) -> usize {
        let Some(row) = fits.get(part) else { return 0 };
        let mut most = best(fits, part + 1, left);
        for (expectation, _) in row.iter().enumerate().filter(|(_, fits)| **fits) {
            if left[expectation] > 0 {
                left[expectation] -= 1;
                most = most.max(1 + best(fits, part + 1, left));
                left[expectation] += 1;
            }
        }
        most
    }

    #[test]
    fn matching_is_as_large_as_the_best_of_all_assignments() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below).unwrap()
        };
        for _ in 0..4000 {
            let (n_parts, n_expectations) = (random(6), random(4) + 1);
            let density = random(4) + 1;
            let fits: Vec<Vec<bool>> = (0..n_parts)
                .map(|_| (0..n_expectations).map(|_| random(5) < density).collect())
                .collect();
            let least: Vec<usize> = (0..n_expectations).map(|_| random(3)).collect();
            let most: Vec<usize> = least.iter().map(|least| least + random(3)).collect();
            let matching = Matching::new(&fits, &least, &most);
            let n_least: usize =
                (0..n_expectations).map(|at| matching.n_parts(at).min(least[at])).sum();
            assert_eq!(n_least, best(&fits, 0, &mut least.clone()), "{fits:?} {least:?}");
            let n_most = matching.chosen.iter().flatten().count();
            assert_eq!(n_most, best(&fits, 0, &mut most.clone()), "{fits:?} {most:?}");
            for (part, chosen) in matching.chosen.iter().enumerate() {
                assert!(chosen.is_none_or(|expectation| fits[part][expectation]));
            }
            assert!(most.iter().enumerate().all(|(at, most)| matching.n_parts(at) <= *most));
        }
    }
}
