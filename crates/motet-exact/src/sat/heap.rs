//! [`Heap`]: unassigned variables by activity (VSIDS): those most involved in recent conflicts first.

/// The factor by which earlier conflicts lose weight with each new one.
const DECAY: f64 = 0.95;

/// Above this all weights are scaled down.
const LARGE: f64 = 1e100;

const ABSENT: u32 = u32::MAX;

/// A binary heap that knows where each variable is.
#[derive(Clone, Debug)]
pub(super) struct Heap {
    weight: Vec<f64>,
    heap: Vec<u32>,
    place: Vec<u32>,
    raise: f64,
}

impl Default for Heap {
    fn default() -> Self {
        Self { weight: Vec::new(), heap: Vec::new(), place: Vec::new(), raise: 1.0 }
    }
}

impl Heap {
    pub(super) fn add(&mut self) {
        let var = self.weight.len() as u32;
        self.weight.push(0.0);
        self.place.push(ABSENT);
        self.push(var);
    }

    pub(super) fn push(&mut self, var: u32) {
        if self.place[var as usize] == ABSENT {
            self.place[var as usize] = self.heap.len() as u32;
            self.heap.push(var);
            self.up(self.heap.len() - 1);
        }
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        let last = self.heap.pop()?;
        let Some(top) = self.heap.first().copied() else {
            self.place[last as usize] = ABSENT;
            return Some(last);
        };
        self.place[top as usize] = ABSENT;
        self.heap[0] = last;
        self.place[last as usize] = 0;
        self.down(0);
        Some(top)
    }

    /// Raises the activity of a variable that a conflict involved.
    pub(super) fn raise(&mut self, var: usize) {
        self.weight[var] += self.raise;
        if self.weight[var] > LARGE {
            self.weight.iter_mut().for_each(|it| *it /= LARGE);
            self.raise /= LARGE;
        }
        if self.place[var] != ABSENT {
            self.up(self.place[var] as usize);
        }
    }

    /// Makes all activity so far count for less, by raising by more from now on.
    pub(super) fn decay(&mut self) {
        self.raise /= DECAY;
    }

    fn before(&self, one: u32, other: u32) -> bool {
        let (a, b) = (self.weight[one as usize], self.weight[other as usize]);
        a > b || (a == b && one < other)
    }

    fn up(&mut self, mut at: usize) {
        let var = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.before(var, self.heap[parent]) {
                break;
            }
            self.heap[at] = self.heap[parent];
            self.place[self.heap[at] as usize] = at as u32;
            at = parent;
        }
        self.heap[at] = var;
        self.place[var as usize] = at as u32;
    }

    fn down(&mut self, mut at: usize) {
        let var = self.heap[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.before(self.heap[child + 1], self.heap[child]) {
                child += 1;
            }
            if !self.before(self.heap[child], var) {
                break;
            }
            self.heap[at] = self.heap[child];
            self.place[self.heap[at] as usize] = at as u32;
            at = child;
        }
        self.heap[at] = var;
        self.place[var as usize] = at as u32;
    }
}
