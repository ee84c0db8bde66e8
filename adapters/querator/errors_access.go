package querator

// Access: authentication comes before everything but the method, authorization after the queue is
// found.
var (
	errAuthorization = &fault{codeUnauthorized, "invalid authorization header format"}
	errNoKey         = &fault{codeUnauthorized, "authentication required"}
	errKeyUnknown    = &fault{codeUnauthorized, "api key does not exist"}
	errKeyExpired    = &fault{codeUnauthorized, "api key has expired"}
	errKeyInvalid    = &fault{codeUnauthorized, "api key is invalid"}
	errForbidden     = &fault{codeForbidden, "access denied"}
)

func noNamespace(name string) *fault {
	return failWith(codeRequestFailed, "namespace does not exist; '", name, "' was not found")
}

func namespaceExists(name string) *fault {
	return failWith(codeBadRequest, "namespace already exists; '", name, "' already exists")
}

func reservedNamespace(name string) *fault {
	return failWith(codeBadRequest, "namespace name is reserved; '", name, "' names starting with '_' are reserved")
}

func namespaceHasQueues(name string) *fault {
	return failWith(codeBadRequest, "namespace has queues; '", name, "' has queues, delete queues first")
}

// noKey follows the wording for other things that are not there: no build's text for it is known.
func noKey(id string) *fault {
	return failWith(codeRequestFailed, "api key does not exist; '", id, "' was not found")
}
