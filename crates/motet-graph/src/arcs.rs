//! [`Arcs`]: what a flow must know of a graph; [`PairedArcs`]: a graph that can grow.

/// A directed graph in which every arc has its opposite, with capacity zero where nothing can flow
/// that way. One array of capacities left then serves a flow and what is taken back of it.
pub trait Arcs {
    fn node_count(&self) -> usize;

    fn arc_count(&self) -> usize;

    /// The arcs out of a node.
    fn arcs_of(&self, node: usize) -> impl Iterator<Item = usize>;

    /// The arc in place `nth` among those out of a node, from 0; `None` behind the last.
    fn nth_arc_of(&self, node: usize, nth: u32) -> Option<usize>;

    /// The node that an arc leads to.
    fn head(&self, arc: usize) -> usize;

    /// The arc the other way between the same nodes.
    fn opposite(&self, arc: usize) -> usize;
}

impl<G: Arcs> Arcs for &G {
    fn node_count(&self) -> usize {
        (**self).node_count()
    }

    fn arc_count(&self) -> usize {
        (**self).arc_count()
    }

    fn arcs_of(&self, node: usize) -> impl Iterator<Item = usize> {
        (**self).arcs_of(node)
    }

    fn nth_arc_of(&self, node: usize, nth: u32) -> Option<usize> {
        (**self).nth_arc_of(node, nth)
    }

    fn head(&self, arc: usize) -> usize {
        (**self).head(arc)
    }

    fn opposite(&self, arc: usize) -> usize {
        (**self).opposite(arc)
    }
}

/// Arcs that are added in pairs, one each way: an even number and the odd one after it.
#[derive(Clone, Debug)]
pub struct PairedArcs {
    head: Vec<u32>,
    out_of: Vec<Vec<u32>>,
}

impl PairedArcs {
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { head: Vec::new(), out_of: vec![Vec::new(); nodes] }
    }

    /// Adds an arc and its opposite; the number of the first.
    pub fn add_pair(&mut self, from: u32, to: u32) -> u32 {
        let arc = self.head.len() as u32;
        self.head.extend([to, from]);
        self.out_of[from as usize].push(arc);
        self.out_of[to as usize].push(arc + 1);
        arc
    }

    /// The arcs out of a node, in the order in which they were added.
    #[must_use]
    pub fn of(&self, node: u32) -> &[u32] {
        &self.out_of[node as usize]
    }

    /// Takes away all arcs of a node, so that searches pass it by, and returns those out of it.
    /// Their numbers stay in use.
    pub fn isolate(&mut self, node: u32) -> Vec<u32> {
        let arcs = std::mem::take(&mut self.out_of[node as usize]);
        for arc in &arcs {
            let other = self.head[*arc as usize] as usize;
            self.out_of[other].retain(|it| *it != arc ^ 1);
        }
        arcs
    }
}

impl Arcs for PairedArcs {
    fn node_count(&self) -> usize {
        self.out_of.len()
    }

    fn arc_count(&self) -> usize {
        self.head.len()
    }

    fn arcs_of(&self, node: usize) -> impl Iterator<Item = usize> {
        self.out_of[node].iter().map(|it| *it as usize)
    }

    fn nth_arc_of(&self, node: usize, nth: u32) -> Option<usize> {
        self.out_of[node].get(nth as usize).map(|it| *it as usize)
    }

    fn head(&self, arc: usize) -> usize {
        self.head[arc] as usize
    }

    fn opposite(&self, arc: usize) -> usize {
        arc ^ 1
    }
}
