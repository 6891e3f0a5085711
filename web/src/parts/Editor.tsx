import { type ReactNode, useId, useRef } from "react";

import type { Failure } from "./ProblemView";

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  faults: readonly Failure[];
  aside: ReactNode;
}

/** A text area with numbered lines; lines with a fault are marked, and pointing at one says what it is. */
export function Editor({ label, value, onChange, faults, aside }: Props): ReactNode {
  const id = useId();
  const gutter = useRef<HTMLDivElement>(null);
  const lines = value.split("\n").length;
  const byLine = new Map(faults.flatMap((fault) => (fault.line === null ? [] : [[fault.line, fault.text] as const])));
  return (
    <div className="editor">
      <div className="editor-head">
        <label htmlFor={id}>{label}</label>
        {aside}
      </div>
      <div className="editor-body">
        <div className="gutter" ref={gutter} aria-hidden="true">
          {Array.from({ length: lines }, (_, index) => (
            <span key={index} className={byLine.has(index + 1) ? "is-fault" : ""} title={byLine.get(index + 1)}>
              {index + 1}
            </span>
          ))}
        </div>
        <textarea
          id={id}
          value={value}
          onChange={(event) => onChange(event.target.value)}
          onScroll={(event) => {
            if (gutter.current) gutter.current.scrollTop = event.currentTarget.scrollTop;
          }}
          spellCheck={false}
          autoComplete="off"
          autoCapitalize="off"
          wrap="off"
          rows={24}
          aria-invalid={faults.length > 0}
          aria-describedby={`${id}-faults`}
        />
      </div>
      <span id={`${id}-faults`} className="visually-hidden">
        {faults.map((fault) => fault.text).join("; ")}
      </span>
    </div>
  );
}
