// Output is read on from where the last answer ended, and kept as lines by the replica that wrote them. Pure.
import type { LogChunk } from "./types";

export interface LogLine {
  /** Component and replica, as `trainer.0`. */
  source: string;
  text: string;
  /** False while the rest of the line may still come. */
  whole: boolean;
}

export interface Logs {
  lines: readonly LogLine[];
  /** Bytes read so far, as the server counts them. */
  after: string;
}

export const NO_LOGS: Logs = { lines: [], after: "0" };

/** Older lines are let go, so that a talkative order does not fill the tab. */
const MAX_LINES = 5_000;

export function addChunks(logs: Logs, chunks: readonly LogChunk[], next: string | null): Logs {
  if (chunks.length === 0) return logs;
  const lines = [...logs.lines];
  for (const chunk of chunks) {
    const source = `${chunk.component ?? ""}.${chunk.replica ?? 0}`;
    const parts = chunk.text.split("\n");
    parts.forEach((text, index) => {
      const whole = index < parts.length - 1;
      const open = index === 0 ? lines.findLastIndex((line) => line.source === source && !line.whole) : -1;
      const before = lines[open];
      if (before) lines[open] = { source, text: before.text + text, whole };
      else if (whole || text !== "") lines.push({ source, text, whole });
    });
  }
  return { lines: lines.slice(-MAX_LINES), after: next ?? logs.after };
}
