// An order document as it is written: checked for what cannot be sent, and with the line of every JSON pointer.
import { isCollection, isMap, isScalar, isSeq, LineCounter, parseDocument } from "yaml";

export interface Fault {
  pointer: string;
  /** Counted from 1; null where the fault has no place in the text. */
  line: number | null;
  /** A key of the dictionary, or a text of the parser. */
  kind: "yaml" | "number" | "notobject" | "empty";
  detail?: string;
}

export interface Written {
  value: unknown;
  faults: Fault[];
  lineOf: (pointer: string) => number | null;
}

export function readDocument(text: string): Written {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter, uniqueKeys: true, prettyErrors: false });
  const lineAt = (offset: number): number => counter.linePos(offset).line;
  const lineOf = (pointer: string): number | null => lineOfPointer(document.contents, pointer, lineAt);
  const faults: Fault[] = document.errors.map((error) => ({ pointer: "", line: lineAt(error.pos[0]), kind: "yaml", detail: error.message }));
  if (faults.length > 0) return { value: null, faults, lineOf };
  if (text.trim() === "" || document.contents === null) return { value: null, faults: [{ pointer: "", line: null, kind: "empty" }], lineOf };
  if (!isMap(document.contents)) return { value: null, faults: [{ pointer: "", line: 1, kind: "notobject" }], lineOf };

  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 }) as unknown;
  } catch (error) {
    return { value: null, faults: [{ pointer: "", line: null, kind: "yaml", detail: error instanceof Error ? error.message : String(error) }], lineOf };
  }
  const unsendable = inexactNumbers(value, "").map((pointer): Fault => ({ pointer, line: lineOf(pointer), kind: "number" }));
  return { value, faults: unsendable, lineOf };
}

/** Pointers of numbers that JSON cannot carry, or not exactly. */
function inexactNumbers(value: unknown, pointer: string): string[] {
  if (typeof value === "number") return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value)) ? [] : [pointer];
  if (typeof value === "bigint") return [pointer];
  if (Array.isArray(value)) return value.flatMap((item, index) => inexactNumbers(item, `${pointer}/${index}`));
  if (typeof value === "object" && value !== null) return Object.entries(value).flatMap(([key, item]) => inexactNumbers(item, `${pointer}/${escape(key)}`));
  return [];
}

function escape(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** The line of the deepest part of the pointer that stands in the text. */
function lineOfPointer(root: unknown, pointer: string, lineAt: (offset: number) => number): number | null {
  let node = root;
  let line: number | null = null;
  for (const raw of pointer.replace(/^#?\//, "").split("/").filter((part) => part !== "")) {
    const key = raw.replaceAll("~1", "/").replaceAll("~0", "~");
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === key);
      if (!pair) break;
      if (isScalar(pair.key) && pair.key.range) line = lineAt(pair.key.range[0]);
      node = pair.value;
    } else if (isSeq(node)) {
      const item = node.items[Number(key)];
      if (item === undefined) break;
      node = item;
      if ((isCollection(item) || isScalar(item)) && item.range) line = lineAt(item.range[0]);
    } else break;
  }
  return line;
}
