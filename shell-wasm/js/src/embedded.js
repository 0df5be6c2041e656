// Replaced by the build in the one-file version for <script> tags and file:// pages, which carries both modules.

export const EMBEDDED = undefined;
export const workerSource = () => '';
