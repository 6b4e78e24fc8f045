//! The models that Motet knows by name. Sizes are of the published configurations: Llama 3 and 3.1,
//! Mixtral and DeepSeek-V3 as in the configuration files that come with the weights, GPT-3 as in
//! Megatron-LM's training script with the vocabulary of GPT-2. The last three are those of TuCCL's
//! evaluation: a language model with adaptive inputs (Baevski and Auli, WikiText-103), RoBERTa base,
//! and a story generator of which only the number of parameters is given.

use crate::model::{Attention, Experts, Model, Shape, Transformer};

/// Names and sizes of all known models.
#[must_use]
pub fn known() -> Vec<Model> {
    vec![
        llama("llama3-8b", 32, 4096, 14336, 32),
        llama("llama3-70b", 80, 8192, 28672, 64),
        llama("llama3-405b", 126, 16384, 53248, 128),
        transformer(
            "gpt3-175b",
            96,
            Transformer { positions: 2048, ..classic(12288, 50257, 49152, 96) },
        ),
        mixtral(),
        deepseek_v3(),
        // Bands of 20,000, 40,000 and 207,744 words, 1024, 256 and 64 wide, each with its projection.
        transformer(
            "transformer-lm-247m",
            16,
            Transformer { embedding: Some(45_391_872), ..classic(1024, 267_744, 4096, 8) },
        ),
        transformer(
            "roberta-125m",
            12,
            Transformer { positions: 514, ..classic(768, 50265, 3072, 12) },
        ),
        Model {
            name: "fusion-270m".to_owned(),
            layers: 16,
            shape: Shape::Opaque { parameters: 270_000_000 },
        },
    ]
}

/// The model of that name.
#[must_use]
pub fn named(name: &str) -> Option<Model> {
    known().into_iter().find(|it| it.name == name)
}

fn transformer(name: &str, layers: u32, shape: Transformer) -> Model {
    Model { name: name.to_owned(), layers, shape: Shape::Transformer(shape) }
}

/// Norms without biases, gated feed-forward part, heads of 128 that share eight keys and values.
fn modern(hidden: u64, vocab: u64, ffn: u64, heads: u64) -> Transformer {
    Transformer {
        hidden,
        vocab,
        ffn,
        gated: true,
        biases: false,
        positions: 0,
        tied: false,
        embedding: None,
        attention: Attention::Grouped { heads, kv_heads: 8, head_dim: 128 },
        experts: None,
    }
}

/// The transformer of 2018: biases, two feed-forward matrices, each head its own keys, tied head.
fn classic(hidden: u64, vocab: u64, ffn: u64, heads: u64) -> Transformer {
    Transformer {
        gated: false,
        biases: true,
        tied: true,
        attention: Attention::Grouped { heads, kv_heads: heads, head_dim: hidden / heads },
        ..modern(hidden, vocab, ffn, heads)
    }
}

fn llama(name: &str, layers: u32, hidden: u64, ffn: u64, heads: u64) -> Model {
    transformer(name, layers, modern(hidden, 128_256, ffn, heads))
}

fn mixtral() -> Model {
    let experts = Experts { count: 8, active: 2, shared: 0, ffn: 14336, dense_layers: 0 };
    let shape = Transformer { experts: Some(experts), ..modern(4096, 32000, 14336, 32) };
    transformer("mixtral-8x7b", 32, shape)
}

/// Without the layer that predicts the token after the next, and without the routers' balancing
/// biases, which no gradient moves.
fn deepseek_v3() -> Model {
    let attention = Attention::Latent {
        heads: 128,
        q_rank: 1536,
        kv_rank: 512,
        plain_dim: 128,
        rotary_dim: 64,
        value_dim: 128,
    };
    let experts = Experts { count: 256, active: 8, shared: 1, ffn: 2048, dense_layers: 3 };
    let shape =
        Transformer { attention, experts: Some(experts), ..modern(7168, 129_280, 18432, 128) };
    transformer("deepseek-v3", 61, shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Part;

    #[test]
    fn models_are_as_large_as_published() {
        let size = |name: &str| named(name).map(|it| it.parameters());
        assert_eq!(size("llama3-8b"), Some(8_030_261_248));
        assert_eq!(size("llama3-70b"), Some(70_553_706_496));
        assert_eq!(size("llama3-405b"), Some(405_853_388_800));
        assert_eq!(size("mixtral-8x7b"), Some(46_702_792_704));
        // 671,026,419,200 with the 58 × 256 balancing biases.
        assert_eq!(size("deepseek-v3"), Some(671_026_419_200 - 58 * 256));
        let near = |name: &str, millions: u64, off: u64| {
            let size = size(name).unwrap_or(0);
            assert!(size.abs_diff(millions * 1_000_000) <= off * 1_000_000, "{name}: {size}");
        };
        near("gpt3-175b", 175_000, 500);
        near("transformer-lm-247m", 247, 1);
        near("roberta-125m", 125, 1);
        near("fusion-270m", 270, 0);
    }

    #[test]
    fn tensor_ranks_hold_the_model_together() {
        for model in known() {
            for part in model.parts() {
                let (one, four) = (model.on_rank(part, 1, 1), model.on_rank(part, 4, 1));
                if matches!(model.shape, Shape::Transformer(_)) {
                    // The vocabulary may be padded by up to three rows.
                    let padding = 3 * 12288;
                    assert!(four.split * 4 >= one.split && four.split * 4 <= one.split + padding);
                    assert_eq!(four.copied, one.copied);
                }
            }
        }
        let experts =
            |ep| named("mixtral-8x7b").map(|it| it.on_rank(Part::Layer(0), 1, ep).experts);
        assert_eq!(experts(8).map(|it| it * 8), experts(1));
    }
}
