import { type KeyboardEvent, type ReactNode, useState } from "react";

import type { Point } from "./geometry";
import type { Placed } from "./labels";
import { moveAmongMarks } from "./roving";
import { type Colouring, classOf } from "./scales";
import type { LinkMark, NodeMark } from "./scene";
import { outline } from "./shapes";

export interface Picked {
  kind: "site" | "transit" | "link";
  id: string;
}

export interface Hot extends Picked {
  at: Point;
}

interface Common {
  picked: Picked | null;
  onPick: (picked: Picked) => void;
  onHot: (hot: Hot | null) => void;
  describe: (picked: Picked) => string;
  label: string;
}

function onActivate(event: KeyboardEvent, act: () => void): void {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  act();
}

interface LinksProps extends Common {
  links: readonly LinkMark[];
  colouring: Colouring;
  /** Links of the order shown; others step back while there are any. */
  path: ReadonlySet<string>;
}

export function LinkMarks({ links, colouring, path, picked, onPick, onHot, describe, label }: LinksProps): ReactNode {
  const [stop, setStop] = useState(0);
  return (
    <g role="group" aria-label={label} onKeyDown={moveAmongMarks} className={path.size > 0 ? "links with-path" : "links"}>
      {links.map((mark, index) => {
        const me: Picked = { kind: "link", id: mark.id };
        const level = classOf(mark.link, colouring);
        const classes = [
          "link",
          mark.link.stale ? "is-stale" : "",
          mark.link.estimated ? "is-estimated" : "",
          path.has(mark.id) ? "on-path" : "",
          picked?.kind === "link" && picked.id === mark.id ? "is-picked" : "",
        ];
        return (
          <g
            key={mark.id}
            data-mark
            data-link={mark.id}
            role="button"
            tabIndex={index === Math.min(stop, links.length - 1) ? 0 : -1}
            aria-label={describe(me)}
            aria-pressed={picked?.kind === "link" && picked.id === mark.id}
            className={classes.join(" ")}
            style={{ color: level === null ? "var(--scale-none)" : `var(--scale-${level})` }}
            onClick={() => onPick(me)}
            onKeyDown={(event) => onActivate(event, () => onPick(me))}
            onFocus={() => {
              setStop(index);
              onHot({ ...me, at: mark.mid });
            }}
            onBlur={() => onHot(null)}
            onPointerEnter={() => onHot({ ...me, at: mark.mid })}
            onPointerLeave={() => onHot(null)}
          >
            {mark.paths.map((d) => (
              <g key={d}>
                <path d={d} className="link-hit" />
                <path d={d} className="link-halo" />
                <path d={d} className="link-line" />
              </g>
            ))}
            {mark.hasArrow && (
              <path d="M-4 -3L4 0L-4 3Z" className="link-arrow" transform={`translate(${mark.mid[0]} ${mark.mid[1]}) rotate(${mark.angle})`} />
            )}
          </g>
        );
      })}
    </g>
  );
}

interface NodesProps extends Common {
  nodes: readonly NodeMark[];
  /** Sites of the order shown. */
  chosen: ReadonlySet<string>;
}

export function NodeMarks({ nodes, chosen, picked, onPick, onHot, describe, label }: NodesProps): ReactNode {
  const [stop, setStop] = useState(() => Math.max(0, nodes.findIndex((node) => node.kind === "site")));
  return (
    <g role="group" aria-label={label} onKeyDown={moveAmongMarks}>
      {nodes.map((node, index) => {
        const me: Picked = { kind: node.kind, id: node.id };
        const isPicked = picked !== null && picked.kind === node.kind && picked.id === node.id;
        const classes = ["node", `is-${node.state}`, node.stale ? "is-stale" : "", chosen.has(node.id) ? "is-chosen" : "", isPicked ? "is-picked" : ""];
        return (
          <g
            key={node.id}
            data-mark
            data-node={node.id}
            role="button"
            tabIndex={index === Math.min(stop, nodes.length - 1) ? 0 : -1}
            aria-label={describe(me)}
            aria-pressed={isPicked}
            className={classes.join(" ")}
            transform={`translate(${node.at[0].toFixed(1)} ${node.at[1].toFixed(1)})`}
            onClick={() => onPick(me)}
            onKeyDown={(event) => onActivate(event, () => onPick(me))}
            onFocus={() => {
              setStop(index);
              onHot({ ...me, at: node.at });
            }}
            onBlur={() => onHot(null)}
            onPointerEnter={() => onHot({ ...me, at: node.at })}
            onPointerLeave={() => onHot(null)}
          >
            <circle r={node.radius + 6} className="node-hit" />
            <path d={outline(node.shape, node.radius)} className="node-mark" />
            {node.state === "lost" && <path d={outline("cross", node.radius + 2)} className="node-strike" />}
            {node.state === "draining" && <path d={`M${-node.radius - 3} 0H${node.radius + 3}`} className="node-strike" />}
          </g>
        );
      })}
    </g>
  );
}

export function Labels({ labels }: { labels: readonly Placed[] }): ReactNode {
  return (
    <g aria-hidden="true" className="labels">
      {labels.map((label) => (
        <g key={label.id}>
          {label.leader && <path d={`M${label.leader[0].join(" ")}L${label.leader[1].join(" ")}`} className="label-leader" />}
          <text x={label.x} y={label.y} textAnchor={label.anchor} fontSize={label.fontSize}>
            {label.text}
          </text>
        </g>
      ))}
    </g>
  );
}
