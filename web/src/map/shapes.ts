export type Shape = "square" | "circle" | "triangle" | "diamond" | "ring" | "cross";

/** The outline of a mark around its own centre. */
export function outline(shape: Shape, radius: number): string {
  const r = radius;
  switch (shape) {
    case "square":
      return `M${-r} ${-r}H${r}V${r}H${-r}Z`;
    case "triangle":
      return `M0 ${-r * 1.1}L${r} ${r * 0.75}H${-r}Z`;
    case "diamond":
      return `M0 ${-r}L${r} 0L0 ${r}L${-r} 0Z`;
    case "cross":
      return `M${-r} ${-r}L${r} ${r}M${r} ${-r}L${-r} ${r}`;
    case "circle":
    case "ring":
      return `M${-r} 0A${r} ${r} 0 1 1 ${r} 0A${r} ${r} 0 1 1 ${-r} 0Z`;
  }
}

