// JSON that is printed only as far as it is shown: a state of megabytes may be another one with each frame.

/** The beginning of a value's JSON, and whether that is not all of it. */
export function printed(value: unknown, most: number): { readonly json: string; readonly isCut: boolean } {
  const parts: string[] = [];
  let room = most;
  const put = (text: string): void => {
    parts.push(text.slice(0, Math.max(room, 0)));
    room -= text.length;
  };
  const print = (value: unknown): void => {
    if (typeof value === "string") return put(JSON.stringify(room < value.length ? value.slice(0, room + 1) : value));
    if (typeof value !== "object" || value === null) return put(JSON.stringify(value) ?? "null");
    const isArray = Array.isArray(value);
    let isFirst = true;
    put(isArray ? "[" : "{");
    for (const name in value) {
      if (!isArray && (value as Members)[name] === undefined) continue;
      if (!isFirst) put(",");
      if (!isArray) put(`${JSON.stringify(name)}:`);
      isFirst = false;
      if (room >= 0) print((value as Members)[name]);
      if (room < 0) return;
    }
    put(isArray ? "]" : "}");
  };
  print(value);
  return { json: parts.join(""), isCut: room < 0 };
}

type Members = Readonly<Record<string, unknown>>;
