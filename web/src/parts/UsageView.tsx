import type { ReactNode } from "react";

import type { Cost, Usage, UsageItem } from "../api/types";
import { type Format } from "../format";
import { useI18n } from "../i18n";
import { href } from "../router";
import { billed, usageTotal } from "./plan";
import { useCurrency } from "./tags";

export function UsageView({ usage, quoted, final }: { usage: Usage; quoted: Cost | null; final: boolean }): ReactNode {
  const { t, format, word } = useI18n();
  const federation = useCurrency();
  const currency = usage.currency ?? quoted?.currency ?? federation;
  if (usage.items.length === 0) return <p className="hint">{t("order.usage.none")}</p>;
  const used = usageTotal(usage);
  const due = quoted ? billed(quoted) : 0;
  return (
    <>
      <table className="terms">
        <tbody>
          {usage.items.map((item) => (
            <tr key={`${item.kind} ${item.site ?? ""} ${item.link ?? ""}`}>
              <th scope="row">
                {word("usage", item.kind)}
                <span className="terms-where">
                  {item.site && <a href={href(["sites", item.site])}>{item.site}</a>}
                  {item.link && <a href={href(["links", item.link])}>{item.link}</a>}
                </span>
              </th>
              <td className="num">{quantity(item, format)}</td>
              <td className="num">{format.money(item.cost_micros, currency)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row" colSpan={2}>
              {t("order.total")}
            </th>
            <td className="num">{format.money(used, currency)}</td>
          </tr>
        </tfoot>
      </table>
      {final && due > 0 && (
        <p className="hint">
          {t("order.quoted", { quoted: format.money(due, currency), used: format.money(used, currency), delta: format.signedPercent((used - due) / due) })}
        </p>
      )}
    </>
  );
}

function quantity(item: UsageItem, format: Format): string {
  const value = Number(item.quantity);
  switch (item.kind) {
    case "accelerator_seconds":
    case "cpu_seconds":
      return `${format.number(value, 1)} s`;
    case "gb_moved":
      return `${format.number(value, 4)} GB`;
    case "mbps_hours":
      return `${format.number(value, 4)} Mbps·h`;
    default:
      return format.number(value, 4);
  }
}
