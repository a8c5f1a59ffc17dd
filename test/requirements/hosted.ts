import { section } from "./row.ts";

/** Apps written for the hosted original, and the Pythons they ask for. */
export const HOSTED = {
  ...section("docs/config.md: Files written for the hosted original", {
    "hosted.empty-command": "An empty shell or pre-build command is ignored.",
    "hosted.extras": "Extras of a package may have spaces between them.",
    "hosted.python-number": "python_version may be a bare number; 3.10 is not 3.1.",
    "hosted.gpu-count": "gpu_count is 1 if compute names a GPU and gives no number.",
    "hosted.container-runtime":
      "container_runtime is v1 or v2; where apps run in no container, the build warns.",
    "hosted.compute-tier": "compute_tier is read.",
    "hosted.experimental": "[experimental] is ignored with one warning that says why.",
    "hosted.log-switches":
      "DISABLE_REQUEST_LOGS and DISABLE_RESPONSE_LOGS keep calls' bodies out of records.",
    "hosted.partners": "Partner runtimes and partner-apps are refused by name, through either client.",
    "hosted.unknown-once": "An unknown key is warned about once, wherever it is given again.",
    "hosted.dockerfile": "A Dockerfile app is told what to do about its Dockerfile, not about main.py.",
    "hosted.images": "A base image or apt list that the host lacks is a warning; require_image refuses.",
    "hosted.conda": "Conda packages are refused with what to do instead.",
    "hosted.first-failure": "A failed first deploy does not say that an earlier version serves.",
    "hosted.absent": "A call to an app whose only build failed says that, and why.",
    "hosted.file-run": "A file that runs once without a function gets an empty one as its first argument.",
    "hosted.all":
      "Small apps, one per row, serve or are refused with the remedy, as the official client sends them.",
  }),
  ...section("docs/packages.md: Choose a Python version", {
    "python.places": "python_version is looked for on the PATH and among those of pyenv, uv, conda and mise.",
    "python.fetched": "A Python that the host lacks is fetched with uv, bounded in time and cancellable.",
    "python.newer": "Without it, the nearest newer version is used with a warning that says what to install.",
    "python.strict": "python_version_strict refuses that, and says what to install.",
    "python.start":
      "A version starts again with the Python it was built for, also where that is a newer one.",
  }),
};
