//! A report as a page with drawings: how many times a peer's rate Týr's is, with what was aimed for, and how rate and disk went over a long
//! time. Nothing but text is made, and nothing is loaded from elsewhere.

use std::fmt::Write;

use crate::{
    course::{Course, Slice},
    report::{Ratio, Report, Row, Share},
};

/// The page.
pub fn page(report: &Report) -> String {
    let mut page = HEAD.to_owned();
    page.push_str("<h1>A cluster of Týr and its peers</h1>\n<table>\n");
    for (name, value) in &report.parameters {
        push(&mut page, format_args!("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), escaped(value)));
    }
    page.push_str("</table>\n");
    for failure in &report.failures {
        push(&mut page, format_args!("<p>Failed: {}</p>\n", escaped(failure)));
    }
    let bars: Vec<Bar> = report.ratios.iter().map(Bar::of_ratio).collect();
    draw_bars(&mut page, "Operations per second, divided by those of the peer", &bars);
    let latency: Vec<Bar> = report.ratios.iter().map(Bar::of_latency).collect();
    draw_bars(&mut page, "Median latency, divided by that of the peer", &latency);
    let server: Vec<Bar> = report.ratios.iter().filter_map(Bar::of_server).collect();
    draw_bars(&mut page, "Servers' processor time per operation, divided by that of the peer", &server);
    let shares: Vec<Bar> = report.shares.iter().map(Bar::of_share).collect();
    draw_bars(
        &mut page,
        "Operations per second of a system, divided by its own without the condition",
        &shares,
    );
    for course in &report.courses {
        draw_course(&mut page, course);
    }
    list(&mut page, &report.rows);
    page.push_str("</body></html>\n");
    page
}

/// A ratio to be drawn.
struct Bar {
    group: String,
    name: String,
    value: f64,
    aim: Option<f64>,
    /// Whether more is better.
    is_gain: bool,
}

impl Bar {
    fn of_ratio(ratio: &Ratio) -> Bar {
        Bar {
            group: ratio.case.title(),
            name: format!("{} : {}", ratio.system, ratio.peer),
            value: ratio.rate,
            aim: ratio.rate_aim,
            is_gain: true,
        }
    }

    fn of_latency(ratio: &Ratio) -> Bar {
        Bar { value: ratio.p50, aim: ratio.p50_aim, is_gain: false, ..Bar::of_ratio(ratio) }
    }

    /// A loop and an echo have servers that do nothing, or none.
    fn of_server(ratio: &Ratio) -> Option<Bar> {
        let bar = Bar { value: ratio.server, aim: ratio.server_aim, is_gain: false, ..Bar::of_ratio(ratio) };
        (bar.value > 0.0).then_some(bar)
    }

    fn of_share(share: &Share) -> Bar {
        Bar {
            group: share.case.title(),
            name: format!("{} : {}", share.system, share.without),
            value: share.rate,
            aim: share.rate_aim,
            is_gain: true,
        }
    }

    fn class(&self) -> &'static str {
        let is_better = if self.is_gain { self.value >= 1.0 } else { self.value <= 1.0 };
        if is_better { "better" } else { "worse" }
    }
}

/// Bars on a logarithmic scale, from one; those of a case stand together.
fn draw_bars(page: &mut String, title: &str, bars: &[Bar]) {
    if bars.is_empty() {
        return;
    }
    let groups = 1 + bars.windows(2).filter(|two| two[0].group != two[1].group).count();
    let height = TOP + BAR * (bars.len() + groups) + BAR;
    let most = bars.iter().flat_map(|bar| [Some(bar.value), bar.aim]).flatten().filter(|value| *value > 0.0);
    let decades = most.map(|value| value.log10().abs()).fold(1.0, f64::max).ceil();
    let place = |value: f64| LEFT + SPAN / 2.0 * (1.0 + (value.log10() / decades).clamp(-1.0, 1.0));
    push(page, format_args!("<h2>{title}</h2>\n<svg width=\"{WIDTH}\" height=\"{height}\">\n"));
    draw_scale(page, decades, height, &place);
    let (mut y, mut group) = (TOP, "");
    for bar in bars {
        if bar.group != group {
            group = &bar.group;
            push(
                page,
                format_args!("<text class=\"group\" x=\"4\" y=\"{}\">{}</text>\n", y + 12, escaped(group)),
            );
            y += BAR;
        }
        let (one, end) = (place(1.0), place(bar.value.max(f64::MIN_POSITIVE)));
        let (class, name, value) = (bar.class(), escaped(&bar.name), shortest(bar.value));
        push(
            page,
            format_args!("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>\n", LEFT - 6.0, y + 12),
        );
        push(
            page,
            format_args!(
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\"><title>{name}: {value}</title></rect>\n",
                one.min(end),
                y + 2,
                (one - end).abs().max(1.0),
                BAR - 4
            ),
        );
        let aim = bar.aim.map_or_else(String::new, |aim| format!(" (aim {aim})"));
        push(page, format_args!("<text x=\"{}\" y=\"{}\">{value}{aim}</text>\n", LEFT + SPAN + 8.0, y + 12));
        if let Some(aim) = bar.aim {
            let x = place(aim);
            push(
                page,
                format_args!(
                    "<line class=\"aim\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y}\" y2=\"{}\"/>\n",
                    y + BAR
                ),
            );
        }
        y += BAR;
    }
    page.push_str("</svg>\n");
}

/// A line for each decade, the strongest for one.
fn draw_scale(page: &mut String, decades: f64, height: usize, place: &dyn Fn(f64) -> f64) {
    let mut decade = -decades;
    while decade <= decades {
        let value = 10f64.powf(decade);
        let class = if decade == 0.0 { "one" } else { "decade" };
        let x = place(value);
        push(
            page,
            format_args!(
                "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"18\" y2=\"{height}\"/>\
                 <text x=\"{x:.1}\" y=\"12\" text-anchor=\"middle\">{}</text>\n",
                shortest(value)
            ),
        );
        decade += 1.0;
    }
}

/// What of a slice is drawn.
type Value<'a> = &'a dyn Fn(&Slice) -> f64;

/// Rate and disk of a long run, each as a line from zero to its highest.
fn draw_course(page: &mut String, course: &Course) {
    let last = course.slices.last().map_or(1.0, |slice| slice.seconds).max(f64::MIN_POSITIVE);
    push(
        page,
        format_args!(
            "<h2>{}, {}</h2>\n<p>The rate changed by {:+.1} % from the beginning to the end, and was at most {:.1} % from its mean.</p>\n",
            escaped(&course.case.title()),
            escaped(&course.system),
            course.slope * 100.0,
            course.deviation * 100.0
        ),
    );
    let lines: [(&str, &str, Value<'_>); 3] = [
        ("rate", "operations per second", &|slice| slice.rate),
        ("disk", "MB on disk", &|slice| slice.disk as f64 / 1e6),
        ("memory", "MB of the servers' memory", &|slice| slice.memory as f64 / 1e6),
    ];
    for (class, name, value) in lines {
        let most = course.slices.iter().map(value).fold(f64::MIN_POSITIVE, f64::max);
        let point = |slice: &Slice| {
            let x = SPAN * slice.seconds / last;
            format!("{:.1},{:.1}", LEFT + x, TOP_F + COURSE * (1.0 - value(slice) / most))
        };
        let points: Vec<String> = course.slices.iter().map(point).collect();
        let bottom = TOP_F + COURSE;
        push(
            page,
            format_args!(
                "<svg width=\"{WIDTH}\" height=\"{:.0}\">\n<line class=\"decade\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
                 <text x=\"{}\" y=\"{TOP}\" text-anchor=\"end\">{}</text><text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\
                 <text x=\"4\" y=\"{TOP}\">{name}</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{last:.0} s</text>\n\
                 <polyline class=\"{class}\" points=\"{}\"/>\n</svg>\n",
                bottom + 20.0,
                LEFT + SPAN,
                LEFT - 6.0,
                shortest(most),
                LEFT - 6.0,
                LEFT + SPAN,
                bottom + 16.0,
                points.join(" ")
            ),
        );
    }
}

fn list(page: &mut String, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    page.push_str("<h2>All figures</h2>\n<table class=\"figures\"><tr>");
    for name in ["case", "system", "op/s", "MB/s", "p50 us", "p99 us", "server us", "client us", "others"] {
        push(page, format_args!("<th>{name}</th>"));
    }
    page.push_str("</tr>\n");
    for row in rows {
        push(
            page,
            format_args!("<tr><td>{}</td><td>{}</td>", escaped(&row.case.title()), escaped(&row.system)),
        );
        let figures =
            [row.rate, row.byte_rate / 1e6, row.p50_us, row.p99_us, row.server_us, row.client_us, row.others];
        for figure in figures {
            push(page, format_args!("<td>{}</td>", shortest(figure)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

/// Three digits that say something, at least.
fn shortest(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a string takes all that is written to it");
}

const WIDTH: usize = 1100;
/// Where bars begin, and how much room they have.
const LEFT: f64 = 330.0;
const SPAN: f64 = 620.0;
const TOP: usize = 24;
const TOP_F: f64 = 24.0;
const BAR: usize = 18;
/// How high the drawing of a long run is.
const COURSE: f64 = 120.0;
const HEAD: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Týr and its peers</title><style>
body { font: 13px sans-serif; margin: 24px; color: #222; }
svg { display: block; } svg text { font: 12px sans-serif; fill: #222; } svg .group { font-weight: bold; }
.better { fill: #3a7d44; } .worse { fill: #b4483c; } .aim { stroke: #1b4f9c; stroke-width: 3; }
.decade { stroke: #ddd; } .one { stroke: #555; }
polyline { fill: none; stroke-width: 1.5; } .rate { stroke: #3a7d44; } .disk { stroke: #1b4f9c; } .memory { stroke: #b4483c; }
td { padding: 1px 10px 1px 0; } .figures td:nth-child(n+3) { text-align: right; } th { text-align: left; }
</style></head><body>
";
