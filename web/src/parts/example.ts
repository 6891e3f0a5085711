/** A first order that any federation with a device can try; names of sites and datasets are left to the user. */
export function exampleOrder(model: string): string {
  return `name: first-order
class: training
components:
  - name: trainer
    replicas: 1
    need:
      accelerators: {count: 1, models: [${model}]}
      cpu: 1
      memory: 1GiB
    work: {duration: 20s}
    run: {command: ["sh", "-c", "echo started; sleep 20; echo done"]}
terms: {budget: 100 CNY}
`;
}
