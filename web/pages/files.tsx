import { Page } from "../parts/page.tsx";

export function Files() {
  return <Page title="Files">NOT WRITTEN</Page>;
}
