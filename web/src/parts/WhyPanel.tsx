import type { ReactNode } from "react";

import type { Change, Plan, Reason, Verdict } from "../api/types";
import { useI18n } from "../i18n";
import { href } from "../router";
import { costTerms, placedAt, sortVerdicts } from "./plan";
import { StateTag, useCurrency } from "./tags";

interface Props {
  verdicts: readonly Verdict[];
  /** Why the order as a whole does not fit. */
  reasons: readonly Reason[];
  changes: readonly Change[];
  currency: string | null;
  plan: Plan | null;
}

/** Every site with its verdict: chosen, dearer by so much, or refused and what was missing. */
export function WhyPanel({ verdicts, reasons, changes, currency, plan }: Props): ReactNode {
  const { t } = useI18n();
  const federation = useCurrency();
  const money = currency ?? federation;
  if (verdicts.length + reasons.length + changes.length === 0) return <p className="hint">{t("order.why.none")}</p>;
  const most = Math.max(1, ...verdicts.map((verdict) => verdict.delta_micros ?? 0));
  return (
    <>
      {reasons.length > 0 && (
        <ul className="reasons">
          {reasons.map((reason, index) => (
            <li key={`${reason.reason} ${index}`}>
              <ReasonText reason={reason} />
            </li>
          ))}
        </ul>
      )}
      {changes.length > 0 && <Changes changes={changes} currency={money} />}
      {verdicts.length > 0 && (
        <div className="table-box">
          <table className="why">
            <thead>
              <tr>
                <th scope="col">{t("col.site")}</th>
                <th scope="col">{t("col.verdict")}</th>
                <th scope="col">{t("col.reason")}</th>
              </tr>
            </thead>
            <tbody>
              {sortVerdicts(verdicts).map((verdict) => (
                <VerdictRow key={verdict.site} verdict={verdict} currency={money} most={most} plan={plan} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function VerdictRow({ verdict, currency, most, plan }: { verdict: Verdict; currency: string; most: number; plan: Plan | null }): ReactNode {
  const { t, format } = useI18n();
  const delta = verdict.delta_micros ?? 0;
  return (
    <tr className={`verdict is-${verdict.verdict}`} data-verdict={verdict.verdict}>
      <th scope="row">
        <a href={href(["sites", verdict.site])}>{verdict.site}</a>
      </th>
      <td>
        <StateTag kind="verdict" value={verdict.verdict} />
      </td>
      <td>
        {verdict.verdict === "chosen" && placedAt(plan, verdict.site)}
        {verdict.verdict === "dearer" && (
          <span className="delta">
            <span className="delta-bar" aria-hidden="true">
              <span style={{ width: `${Math.max(1, (delta / most) * 100)}%` }} />
            </span>
            {delta === 0 ? t("verdict.same") : t("verdict.delta", { money: format.money(delta, currency) })}
          </span>
        )}
        {verdict.delta && (
          <span className="delta-terms">
            {costTerms(verdict.delta)
              .filter(({ micros }) => micros !== 0)
              .map(({ term, micros }) => (
                <span key={term}>
                  {t(`cost.${term}`)} {format.moneyDelta(micros, currency)}
                </span>
              ))}
          </span>
        )}
        {verdict.reason && <ReasonText reason={verdict.reason} />}
      </td>
    </tr>
  );
}

export function ReasonText({ reason }: { reason: Reason }): ReactNode {
  const { t, word, format } = useI18n();
  const subject = [reason.site, reason.component, reason.flow !== null && reason.flow !== undefined ? `${t("col.flow")} ${reason.flow}` : null].filter(Boolean).join(", ");
  const needed = format.quantity(reason.needed);
  const free = format.quantity(reason.free);
  return (
    <span className="reason">
      <b>{word("reason", reason.reason)}</b>
      {subject && <span className="reason-subject">{subject}</span>}
      {needed && <span>{t("verdict.needed", { needed })}</span>}
      {free && <span>{t("verdict.free", { free })}</span>}
    </span>
  );
}

export function Changes({ changes, currency }: { changes: readonly Change[]; currency: string }): ReactNode {
  const { t, format } = useI18n();
  return (
    <section className="changes" aria-label={t("change.title")}>
      <h3>{t("change.title")}</h3>
      <ul>
        {changes.map((change) => (
          <li key={`${change.pointer} ${format.quantity(change.to)}`}>
            <code>{change.pointer}</code>
            <span>
              {format.quantity(change.from) && (
                <>
                  {t("change.from")} <del>{format.quantity(change.from)}</del>{" "}
                </>
              )}
              {t("change.to")} <ins>{format.quantity(change.to)}</ins>
            </span>
            {typeof change.cost_micros === "number" && <span className="is-dim">{t("change.cost", { money: format.money(change.cost_micros, currency) })}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
