import type { ReactNode } from "react";

import type { Order, OrderEvent } from "../api/types";
import { useI18n } from "../i18n";
import { FINAL_STATES, steps } from "./plan";
import { Time, useNow } from "./tags";

/** The phases as marks along a line, each with the time it took. */
export function Stepper({ order, events }: { order: Order; events: readonly OrderEvent[] }): ReactNode {
  const { t, word, format } = useI18n();
  const now = useNow();
  if (order.phase === null && events.every((event) => !event.phase) && FINAL_STATES.has(order.state)) return null;
  return (
    <ol className="stepper" aria-label={t("order.phases")}>
      {steps(order, events, now).map((step) => (
        <li key={step.phase} className={`is-${step.state}`} aria-current={step.state === "now" ? "step" : undefined}>
          <span className="step-name">{word("phase", step.phase)}</span>
          <span className="step-time">{step.took_ms !== null ? format.duration(step.took_ms) : ""}</span>
        </li>
      ))}
    </ol>
  );
}

export function Timeline({ events }: { events: readonly OrderEvent[] }): ReactNode {
  const { t, word, format } = useI18n();
  if (events.length === 0) return <p className="hint">{t("order.timeline.none")}</p>;
  return (
    <ol className="timeline" reversed>
      {[...events].reverse().map((event) => {
        const detail = event.detail ? Object.entries(event.detail).filter(([, value]) => value !== null && value !== "") : [];
        return (
          <li key={event.seq}>
            <Time at={event.at} />
            <div>
              <p>
                {event.phase && <b>{word("phase", event.phase)}</b>} {event.message ?? event.kind}
              </p>
              {detail.length > 0 && (
                <details>
                  <summary>{event.kind}</summary>
                  <dl className="figures-list">
                    {detail.map(([key, value]) => (
                      <div key={key}>
                        <dt>{key}</dt>
                        <dd>{format.quantity(value, key)}</dd>
                      </div>
                    ))}
                  </dl>
                </details>
              )}
            </div>
          </li>
        );
      })}
    </ol>
  );
}
