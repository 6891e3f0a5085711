//! The figures of several policies as one page that needs nothing else.

use crate::{course::Course, figures::Figures};
use plotters::{coord::Shift, prelude::*};
use std::fmt::{Display, Write};

/// What one policy did.
#[derive(Debug, Clone)]
pub struct Shown {
    pub figures: Figures,
    pub course: Course,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot draw {chart}: {reason}")]
pub struct PlotError {
    chart: String,
    reason: String,
}

const WIDTH: u32 = 560;
const HEIGHT: u32 = 320;

/// Told apart without red against green.
const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 90, 160),
    RGBColor(214, 112, 0),
    RGBColor(0, 140, 110),
    RGBColor(190, 60, 130),
    RGBColor(90, 170, 220),
    RGBColor(150, 110, 0),
    RGBColor(110, 70, 170),
    RGBColor(90, 90, 90),
    RGBColor(200, 40, 40),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A bar for each policy: title, and the figure.
type Bars = (&'static str, fn(&Figures) -> f64);

const BARS: [Bars; 8] = [
    ("utilisation, %", |f| f.utilisation_pct),
    ("mean queue time, minutes", |f| f.queue_s.mean / 60.0),
    ("mean completion time, minutes", |f| f.completion_s.mean / 60.0),
    ("cost per accelerator-hour", |f| f.cost_per_accelerator_hour_micros as f64 / 1e6),
    ("99th percentile of queue time, hours", |f| f.queue_s.p99 / 3_600.0),
    ("data moved, TB", |f| f.gb_moved / 1e3),
    ("fragmentation of idle accelerators, %", |f| f.fragmentation_pct),
    ("delay-bound violations", |f| f.delay_violations as f64),
];

/// An HTML page with every chart drawn in it. `about` is its subtitle, as plain text.
pub fn html(policies: &[Shown], about: &str) -> Result<String, PlotError> {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>rhumb replay</title>\n<style>\
         body{font-family:sans-serif;margin:2em auto;max-width:1180px;color:#222}\
         .charts{display:flex;flex-wrap:wrap;gap:16px}svg{border:1px solid #ddd;max-width:100%;height:auto}\
         table{border-collapse:collapse;margin:1em 0}td,th{white-space:nowrap;padding:3px 10px;text-align:right;border-bottom:1px solid #ddd}\
         td:first-child,th:first-child{text-align:left}</style></head><body>\n<h1>rhumb replay</h1>\n",
    );
    let _ = writeln!(page, "<p>{}</p>\n{}<div class=\"charts\">", escaped(about), table(policies));
    for (title, of) in BARS {
        page.push_str(&chart(title, |area| bars(area, policies, title, of))?);
    }
    page.push_str(&chart("accelerators in use", |area| in_use(area, policies))?);
    page.push_str(&chart("queue times", |area| waits(area, policies))?);
    page.push_str("</div>\n</body></html>\n");
    Ok(page)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn table(policies: &[Shown]) -> String {
    let mut rows = String::from(
        "<table><tr><th>policy</th><th>utilisation</th><th>queue mean</th><th>p99</th><th>max</th><th>completion mean</th>\
         <th>cost / acc.-hour</th><th>violations</th><th>GB moved</th><th>fragmentation</th><th>makespan</th><th>rejected</th></tr>\n",
    );
    for Shown { figures: f, .. } in policies {
        let _ = writeln!(
            rows,
            "<tr><td>{}</td><td>{:.1} %</td><td>{:.0} s</td><td>{:.0} s</td><td>{:.0} s</td><td>{:.0} s</td><td>{:.2}</td>\
             <td>{}</td><td>{:.0}</td><td>{:.1} %</td><td>{:.0} s</td><td>{}</td></tr>",
            escaped(&f.policy),
            f.utilisation_pct,
            f.queue_s.mean,
            f.queue_s.p99,
            f.queue_s.max,
            f.completion_s.mean,
            f.cost_per_accelerator_hour_micros as f64 / 1e6,
            f.delay_violations,
            f.gb_moved,
            f.fragmentation_pct,
            f.makespan_s,
            f.rejected,
        );
    }
    rows.push_str("</table>\n");
    rows
}

/// Anything that can go wrong in drawing, in words.
type Drawn = Result<(), String>;

fn words(error: impl Display) -> String {
    error.to_string()
}

fn chart(name: &str, draw: impl Fn(&Area) -> Drawn) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        let drawn = area.fill(&WHITE).map_err(words).and_then(|()| draw(&area));
        let drawn = drawn.and_then(|()| area.present().map_err(words));
        drawn.map_err(|reason| PlotError { chart: name.to_owned(), reason })?;
    }
    Ok(svg)
}

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// The top of an axis: a little above the largest value, and never nothing.
fn top(values: impl Iterator<Item = f64>) -> f64 {
    let largest = values.fold(0.0, f64::max);
    if largest > 0.0 { largest * 1.12 } else { 1.0 }
}

fn bars(area: &Area, policies: &[Shown], title: &str, of: fn(&Figures) -> f64) -> Drawn {
    let count = policies.len();
    let top = top(policies.iter().map(|p| of(&p.figures)));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(28)
        .y_label_area_size(52)
        .build_cartesian_2d(-0.5..count as f64 - 0.5, 0.0..top)
        .map_err(words)?;
    let name = |x: &f64| {
        let index = x.round();
        let near = (x - index).abs() < 0.01 && index >= 0.0;
        policies.get(index as usize).filter(|_| near).map_or(String::new(), |p| p.figures.policy.clone())
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * count + 1)
        .x_label_formatter(&name)
        .y_labels(6)
        .light_line_style(WHITE)
        .draw()
        .map_err(words)?;
    let rectangle = |(index, shown): (usize, &Shown)| {
        let x = index as f64;
        Rectangle::new([(x - 0.36, 0.0), (x + 0.36, of(&shown.figures))], colour(index).filled())
    };
    chart.draw_series(policies.iter().enumerate().map(rectangle)).map_err(words)?;
    let label = |(index, shown): (usize, &Shown)| {
        let value = of(&shown.figures);
        let text = if value >= 1_000.0 { format!("{value:.0}") } else { format!("{value:.3}") };
        let text = if text.contains('.') {
            text[..text.len().min(6)].trim_end_matches('0').trim_end_matches('.')
        } else {
            &text
        }
        .to_owned();
        Text::new(text, (index as f64 - 0.3, value + top * 0.05), ("sans-serif", 12))
    };
    chart.draw_series(policies.iter().enumerate().map(label)).map_err(words)?;
    Ok(())
}

fn in_use(area: &Area, policies: &[Shown]) -> Drawn {
    let points = || policies.iter().flat_map(|p| &p.course.in_use);
    let (right, top) = (top(points().map(|p| p.0)) / 1.12, top(points().map(|p| p.1)));
    let mut chart = ChartBuilder::on(area)
        .caption("accelerators in use, over hours", ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(28)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..right, 0.0..top)
        .map_err(words)?;
    chart.configure_mesh().light_line_style(WHITE).draw().map_err(words)?;
    for (index, shown) in policies.iter().enumerate() {
        let line = LineSeries::new(shown.course.in_use.iter().copied(), colour(index).stroke_width(1));
        let series = chart.draw_series(line).map_err(words)?.label(shown.figures.policy.clone());
        series.legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour(index).stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw().map_err(words)
}

fn waits(area: &Area, policies: &[Shown]) -> Drawn {
    let right = top(policies.iter().flat_map(|p| &p.course.waits).map(|p| p.0)).max(10.0);
    let mut chart = ChartBuilder::on(area)
        .caption("share of jobs started within seconds, %", ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(28)
        .y_label_area_size(52)
        .build_cartesian_2d((1.0..right).log_scale(), 0.0..100.0)
        .map_err(words)?;
    let whole = |x: &f64| format!("{x:.0}");
    chart.configure_mesh().light_line_style(WHITE).x_label_formatter(&whole).draw().map_err(words)?;
    for (index, shown) in policies.iter().enumerate() {
        let points = shown.course.waits.iter().map(|(wait, share)| (wait.max(1.0), share * 100.0));
        let series = chart.draw_series(LineSeries::new(points, colour(index).stroke_width(2))).map_err(words)?;
        let series = series.label(shown.figures.policy.clone());
        series.legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour(index).stroke_width(2)));
    }
    let labels = chart.configure_series_labels().position(SeriesLabelPosition::LowerRight).border_style(BLACK).draw();
    labels.map_err(words)
}
