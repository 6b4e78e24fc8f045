//! A table as a Parquet file: required columns, plain encoding, no compression.
//!
//! That is the part of the format that a table of results needs, and every reader reads it. The
//! `parquet` crate writes all of it, for twenty more crates and a minute and a half of building; it
//! is used in the tests, where it reads back what is written here. The format is described by the
//! Apache Parquet project: pages of values, then a footer in Thrift's compact protocol that says
//! where they are, its length, and the magic word at both ends.

use crate::table::{Table, Values};

const MAGIC: &[u8; 4] = b"PAR1";

/// Rows of a row group. Readers hold one group in memory at a time, so groups are limited.
const GROUP: usize = 100_000;

/// Numbers that the format's specification gives to types, encodings and the like.
const REQUIRED: i32 = 0;
const UTF8: i32 = 0;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const UNCOMPRESSED: i32 = 0;
const DATA_PAGE: i32 = 0;

/// The whole file as bytes.
pub(crate) fn encode(table: &Table) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    let rows = table.rows();
    let mut groups = Vec::new();
    let mut start = 0;
    while start < rows {
        let end = rows.min(start + GROUP);
        let chunks =
            table.columns.iter().map(|it| Chunk::write(&mut file, &it.0, &it.1, start..end));
        groups.push((chunks.collect::<Vec<_>>(), end - start));
        start = end;
    }
    let footer = footer(table, &groups);
    file.extend_from_slice(&footer);
    file.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    file.extend_from_slice(MAGIC);
    file
}

/// A column of a row group, and where it is in the file.
struct Chunk<'a> {
    name: &'a str,
    kind: i32,
    values: usize,
    offset: usize,
    bytes: usize,
}

impl<'a> Chunk<'a> {
    /// Appends the column's only page to the file.
    fn write(
        file: &mut Vec<u8>,
        name: &'a str,
        values: &Values,
        rows: std::ops::Range<usize>,
    ) -> Self {
        let (offset, count) = (file.len(), rows.len());
        let data = plain(values, rows);
        let mut header = Thrift::default();
        header.int(1, DATA_PAGE);
        header.int(2, data.len() as i32);
        header.int(3, data.len() as i32);
        header.open(5);
        header.int(1, count as i32);
        header.int(2, PLAIN);
        header.int(3, RLE);
        header.int(4, RLE);
        header.close();
        file.extend_from_slice(&header.finish());
        file.extend_from_slice(&data);
        Self { name, kind: kind(values), values: count, offset, bytes: file.len() - offset }
    }

    fn describe(&self, out: &mut Thrift) {
        out.long(2, self.offset as i64);
        out.open(3);
        out.int(1, self.kind);
        out.list(2, Thrift::INT, 1);
        out.element_int(PLAIN);
        out.list(3, Thrift::BINARY, 1);
        out.element_text(self.name);
        out.int(4, UNCOMPRESSED);
        out.long(5, self.values as i64);
        out.long(6, self.bytes as i64);
        out.long(7, self.bytes as i64);
        out.long(9, self.offset as i64);
        out.close();
    }
}

/// The number of the physical type.
const fn kind(values: &Values) -> i32 {
    match values {
        Values::Whole(_) => 2,
        Values::Number(..) => 5,
        Values::Words(_) => 6,
    }
}

/// Values one after the other; words with their lengths before them.
fn plain(values: &Values, rows: std::ops::Range<usize>) -> Vec<u8> {
    match values {
        Values::Whole(it) => it[rows].iter().flat_map(|it| it.to_le_bytes()).collect(),
        Values::Number(it, _) => it[rows].iter().flat_map(|it| it.to_le_bytes()).collect(),
        Values::Words(it) => {
            let mut out = Vec::new();
            for word in &it[rows] {
                out.extend_from_slice(&(word.len() as u32).to_le_bytes());
                out.extend_from_slice(word.as_bytes());
            }
            out
        }
    }
}

fn footer(table: &Table, groups: &[(Vec<Chunk<'_>>, usize)]) -> Vec<u8> {
    let mut out = Thrift::default();
    out.int(1, 1);
    out.list(2, Thrift::STRUCT, table.columns.len() + 1);
    out.element(|it| {
        it.text(4, "table");
        it.int(5, table.columns.len() as i32);
    });
    for (name, values) in &table.columns {
        out.element(|it| {
            it.int(1, kind(values));
            it.int(3, REQUIRED);
            it.text(4, name);
            if matches!(values, Values::Words(_)) {
                it.int(6, UTF8);
            }
        });
    }
    out.long(3, table.rows() as i64);
    out.list(4, Thrift::STRUCT, groups.len());
    for (chunks, rows) in groups {
        out.element(|it| {
            it.list(1, Thrift::STRUCT, chunks.len());
            for chunk in chunks {
                it.element(|it| chunk.describe(it));
            }
            it.long(2, chunks.iter().map(|it| it.bytes as i64).sum());
            it.long(3, *rows as i64);
        });
    }
    out.text(6, concat!("motet version ", env!("CARGO_PKG_VERSION")));
    out.finish()
}

/// A structure in Thrift's compact protocol: fields by number, ascending.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    /// The last field of the structure being written, and of those around it.
    last: u8,
    around: Vec<u8>,
}

impl Thrift {
    const INT: u8 = 5;
    const LONG: u8 = 6;
    const BINARY: u8 = 8;
    const LIST: u8 = 9;
    const STRUCT: u8 = 12;

    /// Field numbers here are small and close together, so that the short form always does.
    fn field(&mut self, number: u8, kind: u8) {
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn zigzag(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63) as u64);
    }

    fn int(&mut self, number: u8, value: i32) {
        self.field(number, Self::INT);
        self.zigzag(i64::from(value));
    }

    fn long(&mut self, number: u8, value: i64) {
        self.field(number, Self::LONG);
        self.zigzag(value);
    }

    fn text(&mut self, number: u8, value: &str) {
        self.field(number, Self::BINARY);
        self.element_text(value);
    }

    /// A list whose elements are written next.
    fn list(&mut self, number: u8, kind: u8, length: usize) {
        self.field(number, Self::LIST);
        if length < 15 {
            self.bytes.push((length as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            self.varint(length as u64);
        }
    }

    fn element_int(&mut self, value: i32) {
        self.zigzag(i64::from(value));
    }

    fn element_text(&mut self, value: &str) {
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// A structure as an element of a list.
    fn element(&mut self, write: impl FnOnce(&mut Self)) {
        self.around.push(std::mem::take(&mut self.last));
        write(self);
        self.close();
    }

    /// A structure as a field; [`Self::close`] ends it.
    fn open(&mut self, number: u8) {
        self.field(number, Self::STRUCT);
        self.around.push(std::mem::take(&mut self.last));
    }

    fn close(&mut self) {
        self.bytes.push(0);
        self.last = self.around.pop().unwrap_or(0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;
    use proptest::prelude::*;

    use super::*;

    /// The rows, as the `parquet` crate reads them.
    fn read(bytes: Vec<u8>) -> Vec<Vec<(String, Field)>> {
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        let row = |row: parquet::record::Row| {
            row.into_columns().into_iter().collect::<Vec<(String, Field)>>()
        };
        rows.map(|it| row(it.unwrap())).collect()
    }

    fn expected(table: &Table) -> Vec<Vec<(String, Field)>> {
        let field = |values: &Values, row: usize| match values {
            Values::Whole(it) => Field::Long(it[row]),
            Values::Number(it, _) => Field::Double(it[row]),
            Values::Words(it) => Field::Str(it[row].clone()),
        };
        let row = |row| table.columns.iter().map(move |it| (it.0.clone(), field(&it.1, row)));
        (0..table.rows()).map(|it| row(it).collect()).collect()
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            rows in prop::collection::vec((any::<i64>(), -1e300f64..1e300, "\\PC{0,12}"), 0..40),
            columns in 1usize..20,
        ) {
            let mut table = Table::new()
                .with("words", Values::Words(rows.iter().map(|it| it.2.clone()).collect()));
            // More than fourteen columns make Thrift's lists long ones.
            for column in 0..columns {
                let (whole, number) = (format!("n{column}"), format!("x {column}"));
                table = table
                    .with(&whole, Values::Whole(rows.iter().map(|it| it.0).collect()))
                    .with(&number, Values::Number(rows.iter().map(|it| it.1).collect(), 3));
            }
            prop_assert_eq!(read(encode(&table)), expected(&table));
        }
    }

    #[test]
    fn many_rows_are_several_groups() {
        let whole: Vec<i64> = (0..GROUP as i64 + 7).collect();
        let table = Table::new().with("n", Values::Whole(whole));
        let bytes = encode(&table);
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes.clone())).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        assert_eq!(read(bytes), expected(&table));
    }
}
