//! Tables and times, for people.

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;

/// A moment of the store's clock, and how far it is from `now` of the same clock.
pub(super) fn when(seconds: u64, now: Option<u64>) -> String {
    let moment = i64::try_from(seconds).map(DateTime::from_secs);
    let moment = moment.ok().and_then(|moment| moment.fmt(Format::DateTime).ok());
    let moment = moment.unwrap_or_else(|| seconds.to_string());
    match now {
        Some(now) if now <= seconds => format!("{moment} (in {})", span(seconds - now)),
        Some(now) => format!("{moment} ({} ago)", span(now - seconds)),
        None => moment,
    }
}

/// A time in its two largest units.
fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Rows of cells, in columns as wide as their widest cell, two spaces apart.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_their_distance() {
        assert_eq!(when(1_700_000_000, None), "2023-11-14T22:13:20Z");
        assert_eq!(when(1_700_000_000, Some(1_699_999_988)), "2023-11-14T22:13:20Z (in 12 s)");
        let ago = when(1_700_000_000, Some(1_700_003_661));
        assert_eq!(ago, "2023-11-14T22:13:20Z (1 h 1 min ago)");
        assert_eq!(span(90_000), "1 d 1 h");
        assert_eq!(span(61), "1 min 1 s");
        assert_eq!(when(u64::MAX, None), u64::MAX.to_string());
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = columns(&[row(["SCOPE", "TOKEN"]), row(["s3://b/ä*", "7"])]);
        assert_eq!(text, "SCOPE      TOKEN\ns3://b/ä*  7\n");
    }
}
