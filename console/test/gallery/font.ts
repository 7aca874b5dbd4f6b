// A font in which each letter is the same box: its layout is the same on every machine, whatever fonts the machine has.

const EM = 1000;
const [ADVANCE, ASCENT, DESCENT] = [560, 800, 200];
/** The box of a letter: left, bottom, right, top. */
const BOX = [60, 0, 500, 640] as const;
/** Blanks have room, and no box. */
const BLANKS = [0x20, 0xa0];
/** The characters of the gallery: Latin, punctuation, arrows and signs. */
const LETTERS: readonly (readonly [number, number])[] = [
  [0x21, 0x9f],
  [0xa1, 0x2ff],
  [0x2010, 0x2bff],
];

const u16 = (...values: number[]) => values.flatMap((value) => [(value >> 8) & 0xff, value & 0xff]);
const u32 = (...values: number[]) => values.flatMap((value) => [...u16(value >>> 16), ...u16(value & 0xffff)]);

/** The font, as TrueType. */
export function boxFont(): Buffer {
  const [left, bottom, right, top] = BOX;
  const box = [
    ...u16(1, left, bottom, right, top, 3, 0),
    // Four corners on the curve; both coordinates as words.
    ...[1, 1, 1, 1],
    ...u16(left, 0, right - left, 0),
    ...u16(bottom, top - bottom, 0, bottom - top),
  ];
  while (box.length % 4 !== 0) box.push(0);
  // Each letter is glyph 1, each blank glyph 2.
  const groups = [
    ...BLANKS.map((code) => [code, code, 2]),
    ...LETTERS.flatMap(([from, to]) => Array.from({ length: to - from + 1 }, (_, at) => [from + at, from + at, 1])),
  ].sort(([one = 0], [other = 0]) => one - other);
  const names = Object.entries({ 1: "Boxes", 2: "Regular", 3: "Boxes", 4: "Boxes", 5: "Version 1", 6: "Boxes" }).map(
    ([id, text]) => [Number(id), [...text].flatMap((letter) => u16(letter.charCodeAt(0)))] as const,
  );
  let end = 0;
  const records = names.flatMap(([id, { length }]) => {
    end += length;
    return u16(3, 1, 0x409, id, length, end - length);
  });
  return assembled({
    "OS/2": [
      ...u16(4, ADVANCE, 400, 5, ...new Array<number>(12).fill(0)),
      ...new Array<number>(10).fill(0),
      ...u32(0, 0, 0, 0),
      ...[0x4e, 0x4f, 0x4e, 0x45],
      ...u16(0x40, 0x20, 0xffff, ASCENT, -DESCENT, 0, ASCENT, DESCENT),
      ...u32(0, 0),
      ...u16(500, top, 0, 0x20, 1),
    ],
    cmap: [
      ...u16(0, 1, 3, 10),
      ...u32(12),
      ...u16(12, 0),
      ...u32(16 + 12 * groups.length, 0, groups.length),
      ...groups.flatMap((group) => u32(...group)),
    ],
    glyf: [...box, ...box],
    head: [
      ...u32(0x00010000, 0x00010000, 0, 0x5f0f3cf5),
      ...u16(0, EM),
      ...u32(0, 0, 0, 0),
      ...u16(left, bottom, right, top, 0, 8, 2, 1, 0),
    ],
    hhea: [...u32(0x00010000), ...u16(ASCENT, -DESCENT, 0, ADVANCE, 0, 0, right, 1, 0, 0, 0, 0, 0, 0, 0, 3)],
    hmtx: u16(ADVANCE, left, ADVANCE, left, ADVANCE, 0),
    loca: u32(0, box.length, 2 * box.length, 2 * box.length),
    maxp: [...u32(0x00010000), ...u16(3, 4, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)],
    name: [...u16(0, names.length, 6 + records.length), ...records, ...names.flatMap(([, name]) => name)],
    post: [...u32(0x00030000, 0), ...u16(-100, 50), ...u32(1, 0, 0, 0, 0)],
  });
}

function assembled(tables: Readonly<Record<string, readonly number[]>>): Buffer {
  const entries = Object.entries(tables).sort(([one], [other]) => (one < other ? -1 : 1));
  let offset = 12 + 16 * entries.length;
  const directory: number[] = [];
  const bodies: number[] = [];
  for (const [tag, body] of entries) {
    const padded = [...body, ...new Array<number>((4 - (body.length % 4)) % 4).fill(0)];
    directory.push(...Buffer.from(tag), ...u32(checksum(padded), offset, body.length));
    for (const each of padded) bodies.push(each);
    offset += padded.length;
  }
  const power = 2 ** Math.floor(Math.log2(entries.length));
  const head = [
    ...u32(0x00010000),
    ...u16(entries.length, 16 * power, Math.log2(power), 16 * (entries.length - power)),
  ];
  return Buffer.from([...head, ...directory, ...bodies]);
}

function checksum(bytes: readonly number[]): number {
  const whole = Buffer.from(bytes);
  let sum = 0;
  for (let at = 0; at < whole.length; at += 4) sum = (sum + whole.readUInt32BE(at)) >>> 0;
  return sum;
}
