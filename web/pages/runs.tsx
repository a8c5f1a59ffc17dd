import { Page } from "../parts/page.tsx";

export function Runs() {
  return <Page title="Runs">NOT WRITTEN</Page>;
}
