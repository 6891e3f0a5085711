import { type ReactNode, useState } from "react";

import { useLogs } from "../api/queries";
import { useI18n } from "../i18n";
import { Answer } from "./Answer";

/** What the order's processes wrote; read only while it is open. */
export function Logs({ id }: { id: string }): ReactNode {
  const { t } = useI18n();
  const [open, setOpen] = useState(false);
  const logs = useLogs(id, open);
  return (
    <section className="sheet" aria-labelledby="logs">
      <h2 id="logs">{t("order.logs")}</h2>
      {!open && (
        <button type="button" className="button" onClick={() => setOpen(true)}>
          {t("order.logs.show")}
        </button>
      )}
      {open && (
        <Answer query={logs}>
          {({ lines }) =>
            lines.length === 0 ? (
              <p className="hint">{t("order.logs.none")}</p>
            ) : (
              // A region that scrolls must be reachable by the keyboard.
              // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
              <pre className="logs" tabIndex={0} aria-label={t("order.logs")}>
                {lines.map((line, index) => (
                  <span key={index}>
                    <i>{line.source} </i>
                    {line.text}
                    {"\n"}
                  </span>
                ))}
              </pre>
            )
          }
        </Answer>
      )}
    </section>
  );
}
