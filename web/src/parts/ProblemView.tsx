import type { ReactNode } from "react";

import type { Problem } from "../api/types";
import { type I18n, useI18n } from "../i18n";
import { Failure as FailureBlock } from "./Answer";
import type { Written } from "./document";
import { ReasonText } from "./WhyPanel";

export interface Failure {
  pointer: string;
  line: number | null;
  text: string;
}

/** The faults found here, once the user tried to send; and those that the server named by pointer. */
export function failuresOf(written: Written, tried: boolean, problem: Problem | null, t: I18n["t"]): Failure[] {
  const own = tried ? written.faults.map(({ pointer, line, kind, detail = "" }): Failure => ({ pointer, line, text: t(`new.${kind}`, { message: detail }) })) : [];
  const named = (problem?.errors ?? []).map((error): Failure => ({ pointer: error.pointer, line: written.lineOf(error.pointer), text: error.reason }));
  return [...own, ...named];
}

export function ProblemView({ failures, problem, error }: { failures: readonly Failure[]; problem: Problem | null; error: Error | null }): ReactNode {
  const { t } = useI18n();
  if (failures.length === 0 && !error) return null;
  if (error && !problem) return <FailureBlock error={error} />;
  const refusals = problem?.refusals ?? [];
  const title = problem?.title ?? t("new.errors");
  return (
    <div className="state-block is-bad" role="alert" data-testid="problem">
      <h2>{title}</h2>
      {problem?.detail && <p>{problem.detail}</p>}
      {failures.length > 0 && (
        <ul className="failures">
          {failures.map((failure, index) => (
            <li key={`${failure.pointer} ${index}`}>
              {failure.line !== null && <b>{t("new.line", { line: failure.line })}</b>}
              {failure.pointer && <code>{failure.pointer}</code>}
              <span>{failure.text}</span>
            </li>
          ))}
        </ul>
      )}
      {refusals.length > 0 && (
        <ul className="reasons">
          {refusals.map((refusal, index) => (
            <li key={`${refusal.reason} ${index}`}>
              <ReasonText reason={refusal} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
