package control

// Equal is equal, for tests outside the package.
var Equal = equal
