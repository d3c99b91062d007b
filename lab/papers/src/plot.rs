//! Line charts as SVG: a title, two axes with labels, and a legend to the right of the plot.

use crate::error::{PapersError, Result};
use crate::table::number;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::{Shift, combinators::IntoLogRange};
use plotters::prelude::*;
use std::path::Path;

const WIDTH: u32 = 960;
const HEIGHT: u32 = 520;
const LEGEND_WIDTH: i32 = 270;
const LEGEND_LINE: i32 = 22;
/// Maximum number of characters in one line of the legend.
const LEGEND_CHARACTERS: usize = 34;
const FONT: &str = "sans-serif";
/// Colours that people with any kind of colour vision can distinguish (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(128, 128, 128),
];

/// Axis of a chart.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Label of the axis: quantity and unit.
    pub label: &'static str,
    /// Spacing of the values on the axis.
    pub scale: Scale,
}

/// Spacing of the values on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear, beginning at 0, or at the smallest value if that is negative.
    Linear,
    /// Logarithmic, with marks at 1, 2 and 5 times the powers of ten.
    Log10,
    /// Logarithmic, with marks at the powers of two.
    Log2,
}

/// Drawing style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Measured values, drawn as circles that a line joins.
    Measured,
    /// Measured values, drawn as circles only.
    Points,
    /// Computed curve, drawn as a dashed line.
    Computed,
}

/// A series of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points in the order in which the line joins them. A logarithmic axis omits values that are not positive.
    pub points: Vec<(f64, f64)>,
    /// Drawing style of the points.
    pub style: Style,
    /// Index of the colour. Related series have the same colour.
    pub colour: usize,
}

/// Line chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Title, with the number of the paper's figure.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Series that are drawn.
    pub series: Vec<Series>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = std::result::Result<(), DrawingAreaErrorKind<std::io::Error>>;

impl Chart {
    /// Writes the chart as an SVG file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        self.draw(path).map_err(|error| PapersError::Draw {
            path: path.to_owned(),
            reason: error.to_string(),
        })
    }

    fn draw(&self, path: &Path) -> Drawn {
        let root = SVGBackend::new(path, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        let (plot, legend) = root.split_horizontally(WIDTH as i32 - LEGEND_WIDTH);
        let (x, y) = (
            self.x.range(self.visible(|point| point.0)),
            self.y.range(self.visible(|point| point.1)),
        );
        match (self.x.scale == Scale::Log10, self.y.scale == Scale::Log10) {
            (false, false) => self.plot(&plot, x, y)?,
            (true, false) => self.plot(&plot, x.log_scale(), y)?,
            (false, true) => self.plot(&plot, x, y.log_scale())?,
            (true, true) => self.plot(&plot, x.log_scale(), y.log_scale())?,
        }
        self.legend(&legend)?;
        root.present()
    }

    fn is_visible(&self, point: &(f64, f64)) -> bool {
        let fits =
            |value: f64, axis: &Axis| value.is_finite() && (axis.scale == Scale::Linear || value > 0.0);
        fits(point.0, &self.x) && fits(point.1, &self.y)
    }

    fn visible(&self, of: fn(&(f64, f64)) -> f64) -> impl Iterator<Item = f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        points.filter(|point| self.is_visible(point)).map(of)
    }

    fn plot<X, Y>(&self, area: &Area<'_>, x: X, y: Y) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 19))
            .margin(12)
            .x_label_area_size(46)
            .y_label_area_size(84)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .axis_desc_style((FONT, 15))
            .label_style((FONT, 13))
            .light_line_style(WHITE)
            .x_label_formatter(&|value| self.x.scale.label(*value))
            .y_label_formatter(&|value| self.y.scale.label(*value))
            .draw()?;
        for series in &self.series {
            let colour = COLOURS[series.colour % COLOURS.len()];
            let points: Vec<_> = (series.points.iter().copied())
                .filter(|point| self.is_visible(point))
                .map(|point| (self.x.scale.place(point.0), self.y.scale.place(point.1)))
                .collect();
            if series.style == Style::Computed {
                chart.draw_series(DashedLineSeries::new(points, 6, 4, colour.stroke_width(2)))?;
                continue;
            }
            if series.style == Style::Measured {
                chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            }
            let circles = points
                .into_iter()
                .map(|point| Circle::new(point, 4, colour.filled()));
            chart.draw_series(circles)?;
        }
        Ok(())
    }

    fn legend(&self, area: &Area<'_>) -> Drawn {
        let mut at = 52;
        for series in &self.series {
            let colour = COLOURS[series.colour % COLOURS.len()];
            let line = |from, to| PathElement::new(vec![(from, at), (to, at)], colour.stroke_width(2));
            match series.style {
                Style::Computed => {
                    area.draw(&line(4, 12))?;
                    area.draw(&line(18, 26))?;
                }
                Style::Measured => area.draw(&line(4, 26))?,
                Style::Points => (),
            }
            if series.style != Style::Computed {
                area.draw(&Circle::new((15, at), 4, colour.filled()))?;
            }
            for part in lines(&series.name) {
                area.draw(&Text::new(part, (34, at - 7), (FONT, 14)))?;
                at += LEGEND_LINE;
            }
        }
        Ok(())
    }
}

impl Axis {
    fn range(&self, values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.map(|value| self.scale.place(value)) {
            (least, most) = (least.min(value), most.max(value));
        }
        if least > most {
            (least, most) = (1.0, 2.0);
        }
        match self.scale {
            Scale::Linear => least.min(0.0)..(most * 1.06).max(least + f64::EPSILON),
            Scale::Log10 => least / 1.3..most * 1.3,
            Scale::Log2 => least - 0.25..most + 0.25,
        }
    }
}

impl Scale {
    /// Returns the coordinate of a value on the axis. The plotting library itself supports only powers of ten on a
    /// logarithmic axis.
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear | Self::Log10 => value,
            Self::Log2 => value.log2(),
        }
    }

    /// Returns the label of the mark at a coordinate. The label is empty where it would be too close to others.
    fn label(self, place: f64) -> String {
        let is_near = |value: f64, to: f64| (value / to - 1.0).abs() < 1e-6;
        match self {
            Self::Linear => label(place),
            Self::Log10 => {
                let mantissa = place / 10f64.powf((place.log10() + 1e-9).floor());
                let is_marked = [1.0, 2.0, 5.0].into_iter().any(|mark| is_near(mantissa, mark));
                if is_marked { label(place) } else { String::new() }
            }
            Self::Log2 if (place - place.round()).abs() < 1e-6 => number(place.exp2().round()),
            Self::Log2 => String::new(),
        }
    }
}

/// Splits a name into lines that fit the legend.
fn lines(name: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in name.split(' ') {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last] = word.into();
        } else if lines[last].len() + 1 + word.len() <= LEGEND_CHARACTERS {
            lines[last] = format!("{} {word}", lines[last]);
        } else {
            lines.push(word.into());
        }
    }
    lines
}

/// Returns a short label for a value, for example 250 k instead of 250000.
fn label(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    number((value * 1e6).round() / 1e6) + unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_legends_are_short() {
        assert_eq!(label(250_000.0), "250 k");
        assert_eq!(label(0.01), "0.01");
        assert_eq!(label(12_755_102.0), "12.7551 M");
        assert_eq!(Scale::Log2.label(18.0), "262144");
        assert_eq!([Scale::Log2.label(18.5), Scale::Log10.label(30_000.0)], ["", ""]);
        assert_eq!(Scale::Log10.label(20_000.0), "20 k");
        assert_eq!(
            lines("sw, the paper's software with a tree index"),
            ["sw, the paper's software with a", "tree index"]
        );
    }
}
