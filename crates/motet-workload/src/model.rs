//! [`Model`]: the trained model's dimensions, as far as communication and compute depend on them.
//!
//! Parameters are counted part by part (embedding, each layer, head), because that is how they are
//! gathered, reduced and placed on pipeline stages. What one rank holds of a part under tensor and
//! expert parallelism is [`Model::on_rank`]; with degrees of one that is the whole part, and the sum
//! over all parts is the model's size, which the tests hold against the published ones. The known
//! models are in [`crate::models`].

/// A model with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub name: String,
    pub layers: u32,
    pub shape: Shape,
}

/// How much is known of a model's structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Transformer(Transformer),
    /// Only the number of parameters is known; they are spread evenly over the layers. Such a model can only
    /// be trained data parallel, because it is not known what its parts would send each other.
    Opaque {
        parameters: u64,
    },
}

/// The sizes of a transformer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transformer {
    pub hidden: u64,
    pub vocab: u64,
    /// Width of the feed-forward part of dense layers.
    pub ffn: u64,
    /// Whether the feed-forward part has three matrices (SwiGLU) instead of two.
    pub gated: bool,
    /// Whether linear layers and norms have biases, as in GPT-3 but not in Llama.
    pub biases: bool,
    /// The number of learned position embeddings; 0 if positions are not learned.
    pub positions: u64,
    /// Whether the head uses the embedding's matrix.
    pub tied: bool,
    /// Parameters of an embedding that is not one matrix of `vocab` rows (adaptive inputs).
    pub embedding: Option<u64>,
    pub attention: Attention,
    pub experts: Option<Experts>,
}

/// The kind of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Grouped-query attention: heads share `kv_heads` pairs of keys and values. If `kv_heads` equals
    /// `heads`, this is plain multi-head attention.
    Grouped { heads: u64, kv_heads: u64, head_dim: u64 },
    /// DeepSeek's multi-head latent attention: queries are made from a vector of `q_rank` numbers, keys and
    /// values from one of `kv_rank`. A head's queries and keys have `plain_dim` numbers without and
    /// `rotary_dim` with rotary positions, its values `value_dim`.
    Latent {
        heads: u64,
        q_rank: u64,
        kv_rank: u64,
        plain_dim: u64,
        rotary_dim: u64,
        value_dim: u64,
    },
}

impl Attention {
    #[must_use]
    pub const fn heads(self) -> u64 {
        match self {
            Self::Grouped { heads, .. } | Self::Latent { heads, .. } => heads,
        }
    }

    /// How many numbers per token context parallelism sends, on one of `tp` ranks: keys and values of the
    /// rank's heads, or the latent vector that they are made from.
    #[must_use]
    pub fn context_width(self, tp: u64) -> u64 {
        match self {
            Self::Grouped { kv_heads, head_dim, .. } => 2 * kv_on_rank(kv_heads, tp) * head_dim,
            Self::Latent { kv_rank, rotary_dim, .. } => kv_rank + rotary_dim,
        }
    }

    /// Multiply-adds per token and attended position, for attention scores and weighted values.
    const fn score_width(self) -> u64 {
        match self {
            Self::Grouped { heads, head_dim, .. } => 2 * heads * head_dim,
            Self::Latent { heads, plain_dim, rotary_dim, value_dim, .. } => {
                heads * (plain_dim + rotary_dim + value_dim)
            }
        }
    }
}

/// Heads of keys and values on one of `tp` ranks: they are split, or copied if there are fewer of them than
/// ranks.
fn kv_on_rank(kv_heads: u64, tp: u64) -> u64 {
    (kv_heads / tp).max(1)
}

/// A mixture of experts: layers with many small feed-forward parts, of which each token uses a few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    pub count: u64,
    /// How many experts a token is sent to.
    pub active: u64,
    /// Experts that every token uses; they stay where the token is.
    pub shared: u64,
    pub ffn: u64,
    /// How many of the first layers have no experts.
    pub dense_layers: u32,
}

/// A piece of a model that is gathered, computed and reduced on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Embedding,
    Layer(u32),
    /// The last norm, the output matrix and the loss.
    Head,
}

/// Parameters of a part on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnRank {
    /// Split over the tensor-parallel ranks.
    pub split: u64,
    /// Copied to every tensor-parallel rank: norms, routers, biases of summed outputs.
    pub copied: u64,
    /// Parameters of the rank's experts.
    pub experts: u64,
}

impl OnRank {
    /// The parameters that the data-parallel group shares: all but experts.
    #[must_use]
    pub const fn dense(self) -> u64 {
        self.split + self.copied
    }

    #[must_use]
    pub const fn all(self) -> u64 {
        self.dense() + self.experts
    }
}

/// Floating-point operations of the forward pass of a part, per token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flops {
    /// The matrices of attention.
    pub projections: u64,
    /// The scores and the weighted values of attention, which have no parameters.
    pub scores: u64,
    /// The feed-forward part, or all of a head.
    pub rest: u64,
}

impl Model {
    /// All parts, in the order of the forward pass.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let ends = matches!(self.shape, Shape::Transformer(_));
        let first = ends.then_some(Part::Embedding);
        let last = ends.then_some(Part::Head);
        first.into_iter().chain((0..self.layers).map(Part::Layer)).chain(last)
    }

    /// How many parameters there are; a tied head counts once.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.parts().map(|it| self.on_rank(it, 1, 1).all()).sum::<u64>() - self.tied(1)
    }

    /// Parameters that embedding and head share, on one of `tp` ranks.
    #[must_use]
    pub fn tied(&self, tp: u64) -> u64 {
        match &self.shape {
            Shape::Transformer(it) if it.tied => it.table(tp),
            _ => 0,
        }
    }

    /// The experts of a layer; `None` if it has none, or if the part is no layer.
    #[must_use]
    pub fn experts(&self, part: Part) -> Option<Experts> {
        match (&self.shape, part) {
            (Shape::Transformer(it), Part::Layer(layer)) => {
                it.experts.filter(|experts| layer >= experts.dense_layers)
            }
            _ => None,
        }
    }

    /// Parameters of a part on one rank of `tp` tensor-parallel and `ep` expert-parallel ones.
    #[must_use]
    pub fn on_rank(&self, part: Part, tp: u64, ep: u64) -> OnRank {
        match (&self.shape, part) {
            (Shape::Transformer(it), Part::Embedding) => {
                OnRank { split: it.table(tp), copied: it.positions * it.hidden, experts: 0 }
            }
            (Shape::Transformer(it), Part::Head) => {
                OnRank { split: it.table(tp), copied: it.norm(), experts: 0 }
            }
            (Shape::Transformer(it), Part::Layer(_)) => {
                it.layer_on_rank(self.experts(part), tp, ep)
            }
            (Shape::Opaque { parameters }, Part::Layer(layer)) => {
                let layers = u64::from(self.layers.max(1));
                let more = u64::from(u64::from(layer) < parameters % layers);
                OnRank { split: parameters / layers + more, copied: 0, experts: 0 }
            }
            (Shape::Opaque { .. }, _) => OnRank::default(),
        }
    }

    /// Operations of the forward pass per token of a sequence. Attention counts the whole square of
    /// scores, as MFU is commonly defined, although a causal model needs half of it.
    #[must_use]
    pub fn flops(&self, part: Part, sequence: u64) -> Flops {
        match (&self.shape, part) {
            (Shape::Transformer(_), Part::Embedding) => Flops::default(),
            (Shape::Transformer(it), Part::Head) => {
                Flops { rest: 2 * it.hidden * it.vocab, ..Flops::default() }
            }
            (Shape::Transformer(it), Part::Layer(_)) => {
                let experts = self.experts(part);
                let (split, copied) = it.attention_on_rank(1);
                Flops {
                    projections: 2 * (split + copied),
                    scores: 2 * it.attention.score_width() * sequence,
                    rest: 2 * it.active_feed_forward(experts),
                }
            }
            (Shape::Opaque { .. }, _) => {
                Flops { rest: 2 * self.on_rank(part, 1, 1).all(), ..Flops::default() }
            }
        }
    }
}

impl Transformer {
    /// The embedding's matrix on one rank; rows are padded so that all ranks have as many.
    fn table(&self, tp: u64) -> u64 {
        self.embedding.map_or_else(|| self.vocab.div_ceil(tp) * self.hidden, |it| it.div_ceil(tp))
    }

    const fn norm(&self) -> u64 {
        if self.biases { 2 * self.hidden } else { self.hidden }
    }

    /// (split, copied) parameters of attention.
    fn attention_on_rank(&self, tp: u64) -> (u64, u64) {
        let h = self.hidden;
        match self.attention {
            Attention::Grouped { heads, kv_heads, head_dim } => {
                let (q, kv) = (heads / tp * head_dim, kv_on_rank(kv_heads, tp) * head_dim);
                let matrices = 2 * h * q + 2 * h * kv;
                if self.biases { (matrices + q + 2 * kv, h) } else { (matrices, 0) }
            }
            Attention::Latent { heads, q_rank, kv_rank, plain_dim, rotary_dim, value_dim } => {
                let narrow = h * q_rank + q_rank + h * (kv_rank + rotary_dim) + kv_rank;
                let q = q_rank * (plain_dim + rotary_dim);
                let kv = kv_rank * (plain_dim + value_dim);
                (heads / tp * (q + kv + value_dim * h), narrow)
            }
        }
    }

    /// Parameters of one feed-forward part of width `ffn`: (split, copied).
    const fn feed_forward(&self, ffn: u64) -> (u64, u64) {
        let matrices = if self.gated { 3 } else { 2 } * self.hidden * ffn;
        if self.biases { (matrices + ffn, self.hidden) } else { (matrices, 0) }
    }

    fn layer_on_rank(&self, experts: Option<Experts>, tp: u64, ep: u64) -> OnRank {
        let (attention, latent) = self.attention_on_rank(tp);
        let copied = latent + 2 * self.norm();
        let Some(experts) = experts else {
            let (split, bias) = self.feed_forward(self.ffn / tp);
            return OnRank { split: attention + split, copied: copied + bias, experts: 0 };
        };
        let (split, bias) = self.feed_forward(experts.ffn / tp);
        OnRank {
            split: attention + experts.shared * split,
            copied: copied + experts.shared * bias + self.hidden * experts.count,
            experts: experts.count / ep * (split + bias),
        }
    }

    /// Parameters of the feed-forward part that one token uses.
    const fn active_feed_forward(&self, experts: Option<Experts>) -> u64 {
        match experts {
            None => self.feed_forward(self.ffn).0,
            Some(it) => {
                (it.active + it.shared) * self.feed_forward(it.ffn).0 + self.hidden * it.count
            }
        }
    }
}
