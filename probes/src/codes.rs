//! Names of numbers in interfaces of the kernel (`uapi/linux/ethtool.h` and others) and in specifications, from
//! `data/codes.txt`, which gives the source of each table.

const TABLES: &str = include_str!("../data/codes.txt");

/// The name of the number `code` in `table`, if it has one.
pub(crate) fn name(table: &str, code: impl Into<u32>) -> Option<String> {
    let code = code.into();
    rows(table).find_map(|(number, name)| (number == code).then(|| name.to_owned()))
}

/// The names of the rows of `table` whose number `is_set`, in their order.
pub(crate) fn names(table: &str, is_set: impl Fn(u32) -> bool) -> Vec<String> {
    rows(table).filter(|(number, _)| is_set(*number)).map(|(_, name)| name.to_owned()).collect()
}

/// The numbers and names of `table`.
pub(crate) fn rows(table: &str) -> impl Iterator<Item = (u32, &'static str)> {
    let lines = TABLES.lines().skip_while(move |line| *line != table).skip(1);
    lines.map_while(|line| {
        let (number, name) = line.strip_prefix(' ')?.split_once(' ')?;
        Some((parse(number)?, name))
    })
}

/// A decimal number, or a hexadecimal one after `0x`.
fn parse(number: &str) -> Option<u32> {
    match number.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_table_or_a_row_and_numbers_ascend() {
        let mut last = None;
        for line in TABLES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let row = line.strip_prefix(' ').map(|row| row.split_once(' ').unwrap());
            let number = row.map(|(number, _)| parse(number).unwrap());
            assert!(number.is_none() || number > last, "{line}");
            assert!(number.is_some() || rows(line).next().is_some(), "{line} has no rows");
            last = number;
        }
    }

    #[test]
    fn number_without_a_name_is_absent() {
        assert_eq!(name("bmc_unit", 1_u8).as_deref(), Some("°C"));
        assert_eq!((name("bmc_unit", 0_u8), name("no_table", 1_u8)), (None, None));
        assert_eq!(names("lldp_capability", |bit| bit == 2 || bit == 4), ["bridge", "router"]);
    }
}
