import type { ReactNode } from "react";

import { useLinks } from "../api/queries";
import { useI18n } from "../i18n";
import { Answer, Empty } from "../parts/Answer";
import { LinkTable } from "../parts/LinkTable";

export default function Links(): ReactNode {
  const { t } = useI18n();
  const links = useLinks();
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t("links.title")}</h1>
      </header>
      <p className="hint">{t("links.note")}</p>
      <Answer query={links}>{(known) => (known.length === 0 ? <Empty title={t("links.empty")} /> : <LinkTable links={known} />)}</Answer>
    </div>
  );
}
