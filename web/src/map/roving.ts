import type { KeyboardEvent } from "react";

/**
 * One tab stop for a group of marks: arrow keys, Home and End move among the elements with `data-mark` in the group.
 * Returns true when the key was used.
 */
export function moveAmongMarks(event: KeyboardEvent<SVGGElement>): boolean {
  if (event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) return false;
  const marks = [...event.currentTarget.querySelectorAll<SVGElement>("[data-mark]")];
  const here = marks.findIndex((mark) => mark === document.activeElement);
  const next = target(event.key, here, marks.length);
  if (next === null) return false;
  event.preventDefault();
  event.stopPropagation();
  marks[next]?.focus();
  return true;
}

export function target(key: string, here: number, count: number): number | null {
  if (count === 0) return null;
  if (key === "ArrowRight" || key === "ArrowDown") return (here + 1) % count;
  if (key === "ArrowLeft" || key === "ArrowUp") return (here - 1 + count) % count;
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  return null;
}
