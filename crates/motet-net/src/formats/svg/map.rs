//! Placement by geographic coordinates: an equirectangular map, undistorted at its middle latitude.

use super::picture::Picture;
use super::{Scene, SceneStyle};

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 70.0;
const TOP: f64 = 30.0;

pub(super) fn layout(picture: &Picture) -> Scene {
    let places: Vec<(f64, f64)> = picture.items.iter().filter_map(|it| it.place).collect();
    let range = |of: fn(&(f64, f64)) -> f64| {
        let low = places.iter().map(of).fold(f64::INFINITY, f64::min);
        let high = places.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        (low, high)
    };
    let ((south, north), (west, east)) = (range(|it| it.0), range(|it| it.1));
    let squeeze = libm::cos(((south + north) / 2.0).to_radians()).max(0.2);
    let (across, down) = (((east - west) * squeeze).max(0.1), (north - south).max(0.1));
    let inner = WIDTH - 2.0 * MARGIN;
    // Neither a ribbon nor a tower: a chain of cities on one latitude still has some height.
    let scale = (inner / across).min(720.0 / down);
    let (width, height) = (across * scale, (down * scale).max(160.0));
    let on_map = |(latitude, longitude): (f64, f64)| {
        let x = MARGIN + (longitude - west) * squeeze * scale;
        let y = TOP + (north - latitude) * scale;
        (x, y)
    };
    let mut at: Vec<Option<(f64, f64)>> =
        picture.items.iter().map(|it| it.place.map(on_map)).collect();
    place_the_rest(picture, &mut at, height);
    Scene {
        at: at.into_iter().map(|it| it.unwrap_or((MARGIN, MARGIN))).collect(),
        frames: Vec::new(),
        width: width + 2.0 * MARGIN + 60.0,
        height: height + 2.0 * TOP + 30.0,
        style: SceneStyle::Dots,
    }
}

/// What has no coordinates stands amid its neighbours, or below the map in a row.
fn place_the_rest(picture: &Picture, at: &mut [Option<(f64, f64)>], height: f64) {
    // Around a neighbour, one after the other, lest they cover it or each other.
    const AROUND: [(f64, f64); 6] =
        [(24.0, 24.0), (-24.0, 24.0), (0.0, 36.0), (24.0, -24.0), (-24.0, -24.0), (0.0, -36.0)];
    let known = at.to_vec();
    let (mut lost, mut found) = (0.0, 0);
    for item in (0..at.len()).filter(|it| known[*it].is_none()) {
        let ends = picture.lines.iter().filter_map(|it| match item {
            _ if it.from == item => known[it.to],
            _ if it.to == item => known[it.from],
            _ => None,
        });
        let (mut x, mut y, mut count) = (0.0, 0.0, 0.0);
        for end in ends {
            (x, y, count) = (x + end.0, y + end.1, count + 1.0);
        }
        at[item] = Some(if count > 0.0 {
            let (dx, dy) = AROUND[found % AROUND.len()];
            found += 1;
            (x / count + dx, y / count + dy)
        } else {
            lost += 1.0;
            (MARGIN + (lost - 1.0) * 90.0, TOP + height + 36.0)
        });
    }
}
