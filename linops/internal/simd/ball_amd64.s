#include "textflag.h"

// MOVED(base, before, at, x, t) sets x to base + Y15 (base - before) at an index; t is lost.
#define MOVED(base, before, at, x, t) \
	VMOVUPD (base)(at*1), x; \
	VSUBPD (before)(at*1), x, t; \
	VMULPD t, Y15, t; \
	VADDPD t, x, x

// ARGUMENT moves x and the primal point to the next row, and leaves x of this one in Y3 and Y4, and the arguments
// of the projection in Y0 and Y1.
#define ARGUMENT \
	MOVED(SI, R9, AX, Y0, Y5); \
	MOVED(R8, R10, AX, Y1, Y6); \
	MOVED(R8, R10, CX, Y2, Y7); \
	VMOVUPD (R12)(AX*1), Y3; \
	VMOVUPD (R13)(AX*1), Y4; \
	VSUBPD Y3, Y0, Y5; \
	VMULPD Y5, Y14, Y5; \
	VADDPD (R11)(AX*1), Y5, Y5; \
	VSUBPD Y2, Y1, Y2; \
	VMULPD Y2, Y14, Y2; \
	VADDPD Y2, Y5, Y5; \
	VMOVUPD (DI)(AX*1), Y6; \
	VMOVUPD (DI)(BX*1), Y7; \
	VMOVUPD Y0, (R12)(AX*1); \
	VMOVUPD Y1, (R13)(AX*1); \
	VMOVUPD Y5, (DI)(AX*1); \
	VSUBPD Y6, Y5, Y0; \
	VSUBPD Y6, Y7, Y1; \
	VMULPD Y0, Y13, Y0; \
	VMULPD Y1, Y13, Y1; \
	VADDPD Y0, Y3, Y0; \
	VADDPD Y1, Y4, Y1

// STORE stores the result in Y0 and Y1.
#define STORE \
	VMOVUPD Y0, (R14)(AX*1); \
	VMOVUPD Y1, (R15)(AX*1)

// ADD adds to the sums, for x in Y3 and Y4.
#define ADD \
	VSUBPD Y0, Y3, Y3; \
	VSUBPD Y1, Y4, Y4; \
	VSUBPD (SI)(DX*1), Y0, Y0; \
	VSUBPD (R8)(DX*1), Y1, Y1; \
	VMULPD Y0, Y3, Y0; \
	VMULPD Y1, Y4, Y1; \
	VADDPD Y1, Y0, Y0; \
	VADDPD Y0, Y11, Y11

#define NEXT \
	ADDQ $32, BX; \
	ADDQ $32, CX; \
	ADDQ $32, DX; \
	ADDQ $32, AX

// PLANES loads the arguments that both functions have at the same places, and FINISH stores the sums.
#define PLANES \
	MOVQ d0+8(FP), R14; \
	MOVQ d1+16(FP), R15; \
	MOVQ down+24(FP), SI; \
	MOVQ along+32(FP), R8; \
	MOVQ downBefore+40(FP), R9; \
	MOVQ alongBefore+48(FP), R10

#define FINISH \
	MOVQ sums+0(FP), DI; \
	VMOVUPD Y11, (DI); \
	VZEROUPPER

// func advance4(sums *[4]float64, d0, d1, down, along, downBefore, alongBefore, b, x0, x1, primal *float64,
//	squares *float64, row, apart, blocks, joint, summed int, m, c, step, radius float64)
TEXT ·advance4(SB), NOSPLIT, $0-168
	PLANES
	MOVQ b+56(FP), R11
	MOVQ x0+64(FP), R12
	MOVQ x1+72(FP), R13
	MOVQ primal+80(FP), DI
	VBROADCASTSD m+136(FP), Y15
	VBROADCASTSD c+144(FP), Y14
	VBROADCASTSD step+152(FP), Y13
	VBROADCASTSD radius+160(FP), Y12
	VXORPD Y11, Y11, Y11 // sums
	VSUBPD Y12, Y11, Y10 // -radius

	// All pointers stand at the end of the blocks, and the index goes up to 0.
	MOVQ blocks+112(FP), AX
	SHLQ $5, AX
	ADDQ AX, R14
	ADDQ AX, R15
	ADDQ AX, SI
	ADDQ AX, R8
	ADDQ AX, R9
	ADDQ AX, R10
	ADDQ AX, R11
	ADDQ AX, R12
	ADDQ AX, R13
	ADDQ AX, DI
	NEGQ AX
	MOVQ apart+104(FP), BX
	SHLQ $3, BX
	MOVQ AX, CX
	SUBQ BX, CX // neighbours before
	ADDQ AX, BX // neighbours after
	MOVQ row+96(FP), DX
	SHLQ $3, DX
	NEGQ DX
	ADDQ AX, DX // this row
	CMPQ joint+120(FP), $1
	JEQ pairs
	JGT ahead

single:
	ARGUMENT
	VMINPD Y0, Y12, Y0 // the second operand where one is not a number
	VMAXPD Y0, Y10, Y0
	VMINPD Y1, Y12, Y1
	VMAXPD Y1, Y10, Y1
	STORE
	CMPQ summed+128(FP), $0
	JEQ singleNext
	ADD

singleNext:
	NEXT
	JNZ single
	JMP done

pairs:
	ARGUMENT
	VMULPD Y0, Y0, Y5
	VMULPD Y1, Y1, Y6
	VADDPD Y6, Y5, Y5
	VSQRTPD Y5, Y5
	VMAXPD Y5, Y12, Y5 // the second operand where it is not a number
	VDIVPD Y5, Y12, Y5
	VMULPD Y5, Y0, Y0
	VMULPD Y5, Y1, Y1
	STORE
	CMPQ summed+128(FP), $0
	JEQ pairsNext
	ADD

pairsNext:
	NEXT
	JNZ pairs
	JMP done

ahead:
	MOVQ squares+88(FP), DX // in the place of an index: there is no sum
	SUBQ AX, DX

more:
	ARGUMENT
	VMOVUPD Y0, (R14)(AX*1)
	VMOVUPD Y1, (R15)(AX*1)
	VMULPD Y0, Y0, Y0
	VMULPD Y1, Y1, Y1
	VADDPD Y1, Y0, Y0
	VMOVUPD Y0, (DX)(AX*1)
	ADDQ $32, BX
	ADDQ $32, CX
	ADDQ $32, AX
	JNZ more

done:
	FINISH
	RET

// func shorten4(sums *[4]float64, d0, d1, down, along, downBefore, alongBefore, factor *float64, blocks, summed int,
//	m float64)
TEXT ·shorten4(SB), NOSPLIT, $0-88
	PLANES
	MOVQ factor+56(FP), R12
	MOVQ blocks+64(FP), CX
	VBROADCASTSD m+80(FP), Y15
	VXORPD Y11, Y11, Y11 // sums
	XORQ AX, AX
	XORQ DX, DX

shorter:
	VMOVUPD (R12)(AX*1), Y2
	VMULPD (R14)(AX*1), Y2, Y0
	VMULPD (R15)(AX*1), Y2, Y1
	STORE
	CMPQ summed+72(FP), $0
	JEQ shorterNext
	MOVED(SI, R9, AX, Y3, Y5)
	MOVED(R8, R10, AX, Y4, Y6)
	ADD

shorterNext:
	ADDQ $32, DX
	ADDQ $32, AX
	DECQ CX
	JNZ shorter
	FINISH
	RET
