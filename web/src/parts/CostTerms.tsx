import type { ReactNode } from "react";

import type { Cost, Plan } from "../api/types";
import { useI18n } from "../i18n";
import { costTerms } from "./plan";

/** The cost by term, each with its part of the whole, and how far from the optimum it can be at most. */
export function CostTerms({ cost, plan }: { cost: Cost; plan: Plan | null }): ReactNode {
  const { t, format } = useI18n();
  const terms = costTerms(cost);
  const most = Math.max(1, ...terms.map((one) => Math.abs(one.micros)));
  return (
    <>
      <table className="terms">
        <tbody>
          {terms.map(({ term, micros }) => (
            <tr key={term}>
              <th scope="row">{t(`cost.${term}`)}</th>
              <td className="bar" aria-hidden="true">
                <span style={{ width: `${(Math.abs(micros) / most) * 100}%` }} />
              </td>
              <td className="num">{format.money(micros, cost.currency)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row" colSpan={2}>
              {t("order.total")}
            </th>
            <td className="num">{format.money(cost.total_micros, cost.currency)}</td>
          </tr>
        </tfoot>
      </table>
      {plan?.proven_optimal && <p className="hint">{t("order.optimal")}</p>}
      {plan && !plan.proven_optimal && typeof plan.gap_ppm === "number" && <p className="hint">{t("order.gap", { gap: format.loss(plan.gap_ppm) })}</p>}
    </>
  );
}
