//! A rate over time as a small picture of text.

use std::time::Duration;

/// What happened at a time, by a letter.
pub struct Mark {
    /// When, since the beginning.
    pub at: Duration,
    /// A letter that stands for it.
    pub letter: char,
}

/// Lines of a bar chart of how many of `events` came in each part of the time, with marks below it.
pub fn plot(events: &[Duration], marks: &[Mark], end: Duration) -> Vec<String> {
    let width = columns(end);
    let seconds = end.as_secs_f64().max(1e-9);
    let column = |at: Duration| place(at.as_secs_f64() / seconds, width);
    let mut counts = vec![0_usize; width];
    events.iter().for_each(|at| counts[column(*at)] += 1);
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let rate = |count: usize| rate(count, end, width);
    let mut lines: Vec<String> = (0..HEIGHT)
        .rev()
        .map(|row| {
            let label = if row + 1 == HEIGHT { format!("{:.0}/s", rate(most)) } else { String::new() };
            let bars = counts.iter().map(|count| bar(*count, most, row)).collect::<String>();
            format!("{label:>LABEL$} |{}", bars.trim_end())
        })
        .collect();
    let mut below = vec![' '; width];
    for mark in marks {
        // What happened at nearly the same time stands beside it.
        let free = (column(mark.at)..width).find(|place| below[*place] == ' ');
        if let Some(place) = free {
            below[place] = mark.letter;
        }
    }
    let below: String = below.into_iter().collect();
    lines.push(format!("{:>LABEL$} +{}", "0/s", "-".repeat(width)));
    lines.push(format!("{:>LABEL$}  {}", "", below.trim_end()));
    lines.push(format!("{:>LABEL$}  0{:>rest$}", "", format!("{seconds:.0} s"), rest = width - 1));
    lines
}

/// Rows of the chart.
const HEIGHT: usize = 6;
/// Characters before it.
const LABEL: usize = 8;
/// The least and the most columns.
const WIDTHS: (usize, usize) = (10, 64);

/// Two columns a second, as far as there is room.
fn columns(end: Duration) -> usize {
    let wanted = usize::try_from(end.as_millis() / 500).unwrap_or(usize::MAX);
    wanted.clamp(WIDTHS.0, WIDTHS.1)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "few columns"
)]
fn place(part: f64, width: usize) -> usize {
    ((part.clamp(0.0, 1.0) * width as f64) as usize).min(width - 1)
}

#[expect(clippy::cast_precision_loss, reason = "a rate is shown with few digits")]
fn rate(count: usize, end: Duration, width: usize) -> f64 {
    count as f64 * width as f64 / end.as_secs_f64().max(1e-9)
}

/// What of a bar is in a row, in eighths.
fn bar(count: usize, most: usize, row: usize) -> char {
    let eighths = (count * HEIGHT * 8).div_ceil(most).saturating_sub(row * 8).min(8);
    [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][eighths]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn bars_are_as_high_as_there_were_events_and_marks_stand_below_them() {
        let mut events = vec![at(100); 12];
        events.extend([at(2600); 6]);
        let marks = [Mark { at: at(2500), letter: 'K' }, Mark { at: at(2600), letter: 'R' }];
        let lines = plot(&events, &marks, at(5000));
        assert_eq!(lines.len(), HEIGHT + 3);
        assert_eq!(lines[0], "    24/s |█");
        assert_eq!(lines[3], "         |█    █");
        assert_eq!(lines[HEIGHT], "     0/s +----------");
        assert_eq!(lines[HEIGHT + 1], "               KR");
        assert_eq!(lines[HEIGHT + 2], "          0      5 s");
    }

    #[test]
    fn nothing_is_an_empty_picture() {
        let lines = plot(&[], &[], Duration::ZERO);
        assert!(lines.iter().all(|line| !line.contains('█')));
    }
}
