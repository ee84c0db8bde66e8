package cfqueues

import "net/http"

// Codes of authentication. The vendor's general API and its queues answer with
// different ones.
const (
	codeInvalidToken     = 1000
	codeInvalidHeaders   = 6003
	codeBadAuthorization = 6111
	codeNoCredentials    = 9106
	codeNotAuthorized    = 9109
	codeAuthentication   = 10000
	codeUnauthorized     = 10106
)

// errAuthorizationHeader is for an Authorization header of another scheme, or of none.
func errAuthorizationHeader() *apiError {
	e := refusal(http.StatusBadRequest, codeInvalidHeaders, "Invalid request headers")
	e.chain = []errorEntry{{Code: codeBadAuthorization, Message: "Invalid format for Authorization header"}}
	return e
}

// errNoCredentials is for a request without a token. The queues' routes say so with
// 401; the user's with the vendor's 400, by which wrangler knows to ask elsewhere.
func errNoCredentials(needs need) *apiError {
	const text = "Missing X-Auth-Key, X-Auth-Email or Authorization headers"
	if needs == needToken || needs == needVerify {
		return refusal(http.StatusBadRequest, codeNoCredentials, text)
	}
	return refusal(http.StatusUnauthorized, codeAuthentication, "Authentication error: "+text)
}

// errBadToken is for a token that does not exist, or not any more.
func errBadToken(needs need) *apiError {
	switch needs {
	case needVerify:
		return refusal(http.StatusUnauthorized, codeInvalidToken, "Invalid API Token")
	case needToken:
		return refusal(http.StatusForbidden, codeNotAuthorized, "Invalid access token")
	default:
		return refusal(http.StatusUnauthorized, codeAuthentication, "Authentication error")
	}
}

// errDenied is for a good token that may not do what was asked; why names what is
// missing.
func errDenied(needs need, why string) *apiError {
	switch {
	case needs.onMessages():
		return refusal(http.StatusForbidden, codeUnauthorized, "Unauthorized: %s", why)
	case needs == needToken || needs == needVerify:
		return refusal(http.StatusForbidden, codeNotAuthorized, "Unauthorized to access requested resource: %s", why)
	default:
		return refusal(http.StatusForbidden, codeAuthentication, "Authentication error: %s", why)
	}
}
