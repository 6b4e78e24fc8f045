//! A training run as text, from which training continues after a kill: the run's settings, the lines of the
//! policy's file, the curve, the optimizer's means, and the best policy so far. The caller writes it to a
//! file, whole or not at all.
//!
//! ```text
//! motet-training 1
//! run updates=600 lives=32 curriculum=1 imitation=0 full=1 rate=400 judges=8
//! encoding … actions … variant … trained … shape … weights …
//! curve 1200
//! 3f8000003f800000…
//! mean 43210
//! square 43210
//! steps done=200
//! kept updates=180 regret=1019435812
//! best 43210
//! checksum 0123456789abcdef
//! ```

use super::adam::Adam;
use super::curve::Point;
use super::settings::Settings;
use super::{Best, Trainer};
use crate::lstm::text::{Lines, check_version, put_numbers, seal};
use crate::lstm::{PolicyError, PolicyFile};

const MAGIC: &str = "motet-training";
const VERSION: u64 = 1;
/// How many numbers of a [`Point`] are written; the number of its update follows from its place.
const PER_POINT: usize = 7;
/// A limit on updates, more than any run makes.
const MOST_UPDATES: u64 = 1 << 20;

impl Trainer {
    /// The text of a checkpoint.
    #[must_use]
    pub fn write(&self) -> String {
        let Settings { updates, lives, curriculum, imitation, full, rate, judges, .. } =
            self.settings;
        let [curriculum, full] = [curriculum, full].map(u8::from);
        let mut text = format!(
            "{MAGIC} {VERSION}\nrun updates={updates} lives={lives} curriculum={curriculum} \
             imitation={imitation} full={full} rate={rate} judges={judges}\n"
        );
        text.push_str(&self.latest(self.updates()).body());
        let curve: Vec<f32> = self.curve.iter().flat_map(Point::values).collect();
        put_numbers(&mut text, "curve", &curve);
        put_numbers(&mut text, "mean", &self.adam.mean);
        put_numbers(&mut text, "square", &self.adam.square);
        text.push_str(&format!("steps done={}\n", self.adam.steps));
        let Best { regret, updates, weights } = &self.best;
        text.push_str(&format!("kept updates={updates} regret={}\n", regret.to_bits()));
        put_numbers(&mut text, "best", weights);
        seal(&mut text);
        text
    }

    /// The run of a checkpoint's text.
    ///
    /// # Errors
    /// When the text is not exactly a checkpoint for this encoding and these actions.
    pub fn read(text: &str) -> Result<Self, PolicyError> {
        check_version(text, MAGIC, VERSION)?;
        let mut lines = Lines::unsealed(text)?;
        lines.next("the first line")?;
        let names = ["updates", "lives", "curriculum", "imitation", "full", "rate", "judges"];
        let [updates, lives, curriculum, imitation, full, rate, judges] =
            lines.named("run", names)?;
        let rate = u32::try_from(rate)
            .ok()
            .filter(|_| updates <= MOST_UPDATES && curriculum <= 1 && full <= 1);
        let Some(rate) = rate else {
            return Err(lines.malformed("the run's settings are out of bounds".to_owned()));
        };
        let policy = PolicyFile::read_body(&mut lines)?;
        if policy.updates > updates {
            return Err(lines.malformed(format!("{} updates of {updates}", policy.updates)));
        }
        // Fewer than MOST_UPDATES.
        let curve = lines.numbers("curve", policy.updates as usize * PER_POINT)?;
        let (points, _) = curve.as_chunks::<PER_POINT>();
        let curve = (0..).zip(points).map(|(update, it)| Point::of(update, *it)).collect();
        let weights = policy.net.weights().len();
        let mean = lines.numbers("mean", weights)?;
        let square = lines.numbers("square", weights)?;
        let [steps] = lines.named("steps", ["done"])?;
        let [kept, regret] = lines.named("kept", ["updates", "regret"])?;
        let regret = u32::try_from(regret).ok().map(f32::from_bits).filter(|it| it.is_finite());
        let regret = regret.ok_or_else(|| lines.malformed("the regret is no number".to_owned()))?;
        let best = Best { regret, updates: kept, weights: lines.numbers("best", weights)? };
        lines.end()?;
        let settings = Settings {
            seed: policy.seed,
            updates,
            lives,
            shape: policy.net.shape(),
            variant: policy.variant,
            curriculum: curriculum == 1,
            imitation,
            full: full == 1,
            rate,
            judges,
        };
        let adam = Adam { mean, square, steps };
        Ok(Self { settings, net: policy.net, adam, curve, best })
    }
}
