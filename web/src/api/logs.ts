import type { LogLine } from "./types";

/** Logs come as a list of lines, or as plain text. */
export function parseLogs(body: string): LogLine[] {
  const json = tryJson(body);
  const items = Array.isArray(json) ? json : isList(json) ? json.items : null;
  if (!items) return body === "" ? [] : body.replace(/\n$/, "").split("\n").map((line) => ({ line }));
  return items.map((item: unknown) => (isLine(item) ? item : { line: typeof item === "string" ? item : JSON.stringify(item) }));
}

function tryJson(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function isList(value: unknown): value is { items: unknown[] } {
  return typeof value === "object" && value !== null && "items" in value && Array.isArray(value.items);
}

function isLine(value: unknown): value is LogLine {
  return typeof value === "object" && value !== null && "line" in value && typeof value.line === "string";
}
