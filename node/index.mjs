import groupcommit from "./lib/index.js";

export const { Database, GroupcommitError, NotRunError, SqlError, UnknownOutcomeError, open } = groupcommit;
export default groupcommit;
