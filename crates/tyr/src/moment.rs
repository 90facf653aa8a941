//! Moments as people write them.

/// A moment, so many seconds after 1970, as people write it, in UTC.
pub fn moment(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86400, seconds % 86400);
    // The civil calendar from days since 1970, by eras of 400 years that begin in March (H. Hinnant, "chrono-compatible low-level date
    // algorithms").
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(moment(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(moment(951_827_696), "2000-02-29 12:34:56 UTC");
        assert_eq!(moment(1_700_000_000), "2023-11-14 22:13:20 UTC");
        assert_eq!(moment(4_107_542_399), "2100-02-28 23:59:59 UTC");
        assert_eq!(moment(4_107_542_400), "2100-03-01 00:00:00 UTC");
    }
}
